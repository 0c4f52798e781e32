"""The host's measured values (CPU, memory, network, disks), and the agent's own cost."""

from __future__ import annotations

from gpuwatch.wire.base import FramePart
from gpuwatch.wire.limits import Count, Few, Many, Moment, Name, Real, Table, Whole


class Nic(FramePart, frozen=True):
    """A network interface (not loopback)."""

    name: Name
    state: Name | None = None
    speed_bps: Real | None = None
    rx_bps: Real | None = None
    tx_bps: Real | None = None
    errors: Whole | None = None
    drops: Whole | None = None


class IbPort(FramePart, frozen=True):
    """One InfiniBand or RoCE port."""

    device: Name
    port: Count
    state: Name | None = None
    """ACTIVE, INIT, DOWN, ..."""
    physical_state: Name | None = None
    link_layer: Name | None = None
    rate_gbps: Real | None = None
    """Giga*bits*, as the kernel prints it."""
    rx_bps: Real | None = None
    tx_bps: Real | None = None
    errors: Table[Whole] | None = None


class Disk(FramePart, frozen=True):
    """A mounted file system with a device or a network share behind it."""

    mount: Name
    filesystem: Name | None = None
    used_bytes: Whole | None = None
    total_bytes: Whole | None = None


class HostSample(FramePart, frozen=True):
    """The host's values in one tick. `disks`, `nics` and `ib` are complete lists or absent."""

    t: Moment
    cpu_pct: Real | None = None
    iowait_pct: Real | None = None
    load_1m: Real | None = None
    load_5m: Real | None = None
    load_15m: Real | None = None
    memory_total_bytes: Whole | None = None
    memory_used_bytes: Whole | None = None
    swap_total_bytes: Whole | None = None
    swap_used_bytes: Whole | None = None
    nics: Many[Nic] | None = None
    ib: Few[IbPort] | None = None
    disks: Many[Disk] | None = None


class AgentCost(FramePart, frozen=True):
    """The CPU time, memory and NVML calls that the agent itself uses."""

    cpu_pct: Real | None = None
    """Percent of one core, over the last ticks."""
    rss_bytes: Whole | None = None
    threads: Whole | None = None
    nvml_calls_per_gpu_s: Real | None = None
    dropped: Whole = 0
    """Number of frames not sent because the pipe was full."""
