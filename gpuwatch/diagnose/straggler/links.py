"""GPUs whose PCIe or NVLink is far below that of their peers, by rate or throughput. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from gpuwatch.diagnose.health.peer_comparison import EQUAL_PCT, MIN_PEERS, WORKING_PCT
from gpuwatch.diagnose.straggler.gpu_load import GpuLoad
from gpuwatch.diagnose.straggler.outliers import Outlier, Sign, equally_busy, lowest, max_outliers

MIN_PCIE_BPS, MIN_NVLINK_BPS = 1e8, 1e9
"""Bytes per second below which a link is idle; idle links differ by chance."""
KINDS: tuple[tuple[Sign, str, float, Callable[[GpuLoad], float | None]], ...] = (
    ("nvlink_rate", "NVLink", MIN_NVLINK_BPS, lambda each: each.nvlink_bps),
    ("pcie_rate", "PCIe", MIN_PCIE_BPS, lambda each: each.pcie_bps),
)


def narrow_pcie(group: Sequence[GpuLoad], link_pct: float) -> Iterator[Outlier]:
    """Yield the GPUs whose PCIe link is at most `link_pct` percent of the median rate because of their slot.

    A link below its own maximum is another condition (`pcie_degraded`).
    """
    known = [(each, rate) for each in group if (rate := each.pcie_rate) is not None]
    if len(known) < MIN_PEERS:
        return
    usual = median(rate for _, rate in known)
    wide = next((each.pcie for each, rate in known if rate >= usual), "")
    slow = [(each, rate) for each, rate in known if rate <= usual * link_pct / 100.0]
    if len(slow) > max_outliers(len(known)):
        return
    for each, rate in slow:
        if not _below_own(each):
            yield Outlier(
                "pcie", each.rank, len(known) - 1, "PCIe", each.pcie, wide,
                f"at {rate / usual:.2f}x PCIe rate", None, f"{each.pcie}, its peers {wide}", each, len(slow),
            )  # fmt: skip


def throughput(group: Sequence[GpuLoad], link_pct: float) -> Iterator[Outlier]:
    """Yield, for NVLink and for PCIe, the GPU whose throughput is below `link_pct` % of the others' median.

    Only GPUs of equal utilization are compared, and the lowest must be clearly below the next.
    """
    equal = equally_busy(group, WORKING_PCT, EQUAL_PCT)
    for sign, name, least, read in KINDS:
        low = lowest(equal, read, link_pct / 100.0)
        if low is not None and low[2] >= least:
            each, own, usual = low
            yield Outlier(
                sign, each.rank, len(equal) - 1, f"{name} throughput", f"{own / 1e9:.2f} GB/s",
                f"{usual / 1e9:.2f} GB/s", f"at {own / usual:.2f}x {name} throughput", load=each,
            )  # fmt: skip


def _below_own(load: GpuLoad) -> bool:
    """Return True if the GPU's PCIe link is below its own maximum."""
    link, info = load.medium, load.info
    return link is not None and (
        (link.pcie_gen or 0) < (info.pcie_gen_max or 0) or (link.pcie_width or 0) < (info.pcie_width_max or 0)
    )
