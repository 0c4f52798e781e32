"""Values that follow from a tier of a sample alone, for the metrics, the histories and the health checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpuwatch.wire import GpuFast, HostSample

if TYPE_CHECKING:
    from gpuwatch.fleet.node import Gpu, Node

SLOWDOWNS = ("thermal", "sw_thermal", "hw_thermal", "power_brake")
"""The shares of throttle time that mean trouble; a power cap is ordinary under load."""


def no_answer(gpu: Gpu, now: float) -> str:
    """`no answer yet (nvmlDeviceGetUUID, 4 s)`: of a GPU that has told no values since the agent started."""
    waited = gpu.stuck_s(now)
    parts = [gpu.stuck_in or "", "" if waited is None else f"{waited:.0f} s"]
    told = ", ".join(filter(None, parts))
    return f"no answer yet ({told})" if told else "no answer yet"


UNREADABLE = frozenset(("driver_mismatch", "library_missing", "driver_not_loaded", "nvml_error"))
"""Notices of a driver that lists no GPU because it does not work; how many there are is not known."""


def without_gpus(node: Node) -> str:
    """Why a node that answers shows no GPU: only a driver that has answered says that there is none."""
    if node.driver_starting is not None:
        return "GPUs not known yet"
    notices = node.hello.notices if node.hello is not None else ()
    return "no GPU can be read" if any(each.code in UNREADABLE for each in notices) else "no GPU"


def memory_pct(fast: GpuFast) -> float | None:
    """Used share of the GPU's memory, 0..100."""
    if fast.memory_used_bytes is None or not fast.memory_total_bytes:
        return None
    return 100.0 * fast.memory_used_bytes / fast.memory_total_bytes


def slowdown_pct(fast: GpuFast) -> float | None:
    """Share of the last interval in thermal or power-brake slowdown: the largest one, for they overlap."""
    if fast.throttle_pct is None:
        return None
    largest = None
    for each in SLOWDOWNS:
        share = fast.throttle_pct.get(each)
        if share is not None and (largest is None or share > largest):
            largest = share
    return largest


def pcie_bps(fast: GpuFast) -> float | None:
    """Both directions together."""
    return _sum(fast.pcie_rx_bps, fast.pcie_tx_bps)


def nvlink_bps(fast: GpuFast) -> float | None:
    """All links, both directions together."""
    return _sum(fast.nvlink_rx_bps, fast.nvlink_tx_bps)


def host_memory_pct(host: HostSample) -> float | None:
    """Used share of the host's memory, 0..100."""
    if host.memory_used_bytes is None or not host.memory_total_bytes:
        return None
    return 100.0 * host.memory_used_bytes / host.memory_total_bytes


def network_bps(host: HostSample, direction: Literal["rx_bps", "tx_bps"]) -> float | None:
    """All network interfaces and InfiniBand ports together."""
    total: float | None = None
    for port in (*(host.nics or ()), *(host.ib or ())):
        total = _sum(total, getattr(port, direction))
    return total


def _sum(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other
