"""Values computed from one tier of a sample, for the metrics, the histories and the health checks."""

from __future__ import annotations

from typing import Literal

from gpuwatch.wire import GpuFast, HostSample

SLOWDOWNS = ("thermal", "sw_thermal", "hw_thermal", "power_brake")
"""The throttle reasons that indicate a problem; a power cap is normal under load."""


def memory_pct(fast: GpuFast) -> float | None:
    """Return the used GPU memory in percent; None: unknown."""
    if fast.memory_used_bytes is None or not fast.memory_total_bytes:
        return None
    return 100.0 * fast.memory_used_bytes / fast.memory_total_bytes


def slowdown_pct(fast: GpuFast) -> float | None:
    """Return the percent of the last interval that a GPU spent in thermal or power-brake slowdown.

    Kinds of slowdown overlap, so only the largest share counts. None: unknown.
    """
    if fast.throttle_pct is None:
        return None
    largest = None
    for each in SLOWDOWNS:
        share = fast.throttle_pct.get(each)
        if share is not None and (largest is None or share > largest):
            largest = share
    return largest


def pcie_bps(fast: GpuFast) -> float | None:
    """Return bytes per second over PCIe, both directions together; None: unknown."""
    return _sum(fast.pcie_rx_bps, fast.pcie_tx_bps)


def nvlink_bps(fast: GpuFast) -> float | None:
    """Return bytes per second of a GPU's NVLinks, both directions together; None: unknown."""
    return _sum(fast.nvlink_rx_bps, fast.nvlink_tx_bps)


def host_memory_pct(host: HostSample) -> float | None:
    """Return the used host memory in percent; None: unknown."""
    if host.memory_used_bytes is None or not host.memory_total_bytes:
        return None
    return 100.0 * host.memory_used_bytes / host.memory_total_bytes


def network_bps(host: HostSample, direction: Literal["rx_bps", "tx_bps"]) -> float | None:
    """Return the bytes per second that a host's network interfaces and InfiniBand ports receive or send.

    None: unknown.
    """
    total: float | None = None
    for port in (*(host.nics or ()), *(host.ib or ())):
        total = _sum(total, getattr(port, direction))
    return total


def _sum(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other
