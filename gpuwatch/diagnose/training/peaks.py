"""What a GPU could compute at most: dense bf16 FLOP/s of its tensor cores by name, as NVIDIA states it.

Data sheets often print the figure with 2:4 sparsity, which training does not use: that one is halved. Where a
number comes from stands beside it, and in docs/training.md.
"""

from __future__ import annotations

import re
from functools import lru_cache

TERA = 1e12
PEAKS: tuple[tuple[str, float, str], ...] = (
    (r"B300", 2500, "Blackwell Ultra data sheet"),
    (r"GB200", 2500, "GB200 NVL72 data sheet: 180 PFLOP/s of 72 GPUs"),
    (r"B200", 2250, "HGX B200 data sheet: 18 PFLOP/s of 8 GPUs"),
    (r"H[12]00 NVL", 835.5, "H100 NVL and H200 NVL data sheets: 1671 with sparsity"),
    (r"H[18]00 PCIe", 756.5, "H100 PCIe data sheet: 1513 with sparsity"),
    (r"H100|H200|H800", 989.5, "H100 SXM and H200 SXM data sheets: 1979 with sparsity"),
    (r"\bH20\b", 148, "H20 data sheet"),
    (r"A100|A800", 312, "A100 data sheet"),
    (r"\bA30\b", 165, "A30 data sheet"),
    (r"\bA40\b", 149.7, "A40 data sheet"),
    (r"\bA10\b", 125, "A10 data sheet"),
    (r"L40S", 362, "L40S data sheet: 733 with sparsity, which its footnote halves to 362.05"),
    (r"\bL40\b", 181, "L40 data sheet: 181.05"),
    (r"\bL4\b", 121, "L4 data sheet: 242 with sparsity"),
    (r"RTX A6000", 154.8, "RTX A6000 data sheet: 309.7 with sparsity"),
    (r"RTX 4090", 165.2, "Ada whitepaper, bf16 with fp32 accumulation"),
    (r"RTX 3090(?! Ti)", 71, "GA102 whitepaper, bf16 with fp32 accumulation"),
)
"""Pattern of a GPU's name, TFLOP/s, source; the first that fits counts. V100 and T4 have no bf16."""


@lru_cache(maxsize=64)
def peak_flops(name: str) -> float | None:
    """Dense bf16 FLOP/s of a GPU by its name as the driver gives it; None: not in the table."""
    return next((tera * TERA for pattern, tera, _ in PEAKS if re.search(pattern, name)), None)
