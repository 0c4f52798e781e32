"""The cost of a token, and the peak of a GPU: dense bf16 FLOP/s by name, as NVIDIA states it.

Data sheets often print the figure with 2:4 sparsity, which training does not use: that one is halved. The
source of each number is stated with it, and in docs/training.md. GPUs without a public data sheet (H20, A10G)
are left out: `model: peak_tflops:` in the hosts file sets them.
"""

from __future__ import annotations

import re
from functools import lru_cache

TERA = 1e12
PEAKS: tuple[tuple[str, float, str], ...] = (
    (r"\bGB300\b", 2500, "GB300 NVL72 data sheet: 360 PFLOP/s of 72 GPUs with sparsity"),
    (r"\bB300\b", 2250, "HGX B300 data sheet: 36 PFLOP/s of 8 GPUs with sparsity"),
    (r"\bGB200\b", 2500, "GB200 NVL72 data sheet: 360 PFLOP/s of 72 GPUs with sparsity"),
    (r"\bB200\b", 2250, "HGX B200 data sheet: 36 PFLOP/s of 8 GPUs with sparsity"),
    (r"\bH[12]00 NVL\b", 835.5, "H100 NVL and H200 NVL data sheets: 1671 with sparsity"),
    (r"\bH[18]00 PCIe\b", 756.5, "H100 PCIe data sheet: 1513 with sparsity"),
    (r"\bG?H[128]00\b", 989.5, "H100 SXM, H200 SXM and GH200 data sheets: 1979 with sparsity"),
    (r"\bA[18]00X?\b", 312, "A100 data sheet"),
    (r"\bA30\b", 165, "A30 data sheet: 165, 330 with sparsity"),
    (r"\bA40\b", 149.7, "A40 data sheet: 149.7, 299.4 with sparsity"),
    (r"\bA10\b", 125, "A10 data sheet: 125, 250 with sparsity"),
    (r"\bL40S\b", 362.05, "L40S data sheet: 362.05, 733 with sparsity"),
    (r"\bL40\b", 181.05, "L40 data sheet: 181.05, 362.1 with sparsity"),
    (r"\bL4\b", 121, "L4 data sheet: 242 with sparsity"),
    (r"\bRTX A6000$", 154.8, "RTX A6000 data sheet: 309.7 with sparsity"),
    (r"\bRTX 6000 Ada\b", 364.25, "RTX 6000 Ada data sheet: 1457 in fp8 with sparsity, a quarter of that"),
    (r"\bRTX 5090$", 209.5, "RTX Blackwell whitepaper, bf16 with fp32 accumulation"),
    (r"\bRTX 4090$", 165.2, "Ada whitepaper, bf16 with fp32 accumulation"),
    (r"\bRTX 3090$", 71, "GA102 whitepaper, bf16 with fp32 accumulation"),
)
"""(pattern of a GPU's name, TFLOP/s, source); the first match counts.

V100 and T4 have no bf16; laptop and D models of a GeForce are other GPUs.
"""


@lru_cache(maxsize=64)
def peak_flops(name: str) -> float | None:
    """Return the dense bf16 FLOP/s of a GPU by the driver's name; None: not in the table."""
    return next((tera * TERA for pattern, tera, _ in PEAKS if re.search(pattern, name)), None)


def transformer_flops_per_token(
    parameters: float,
    layers: int | None = None,
    hidden: int | None = None,
    sequence_length: int | None = None,
) -> float:
    """Return the FLOP of forward and backward for one token of a dense transformer.

    6 per parameter, and if the shape is known 12 x layers x hidden x sequence length for attention (Chowdhery
    et al., PaLM, appendix B).
    """
    attention = 12.0 * layers * hidden * sequence_length if layers and hidden and sequence_length else 0.0
    return 6.0 * parameters + attention
