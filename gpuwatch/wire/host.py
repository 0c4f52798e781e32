"""The node itself, and what watching it costs."""

from __future__ import annotations

from gpuwatch.wire.part import Part


class Nic(Part, frozen=True):
    """A network interface (not loopback)."""

    name: str
    state: str | None = None
    speed_bps: float | None = None
    rx_bps: float | None = None
    tx_bps: float | None = None
    errors: int | None = None
    drops: int | None = None


class IbPort(Part, frozen=True):
    """One InfiniBand or RoCE port."""

    device: str
    port: int
    state: str | None = None
    """ACTIVE, INIT, DOWN, ..."""
    physical_state: str | None = None
    link_layer: str | None = None
    rate_gbps: float | None = None
    """Giga*bits*, as the kernel prints it."""
    rx_bps: float | None = None
    tx_bps: float | None = None
    errors: dict[str, int] | None = None


class Disk(Part, frozen=True):
    """A mounted file system with a device or a network share behind it."""

    mount: str
    filesystem: str | None = None
    used_bytes: int | None = None
    total_bytes: int | None = None


class HostSample(Part, frozen=True):
    """The node itself. `disks`, `nics` and `ib` are lists that come whole or not at all."""

    t: float
    cpu_pct: float | None = None
    iowait_pct: float | None = None
    load_1m: float | None = None
    load_5m: float | None = None
    load_15m: float | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_used_bytes: int | None = None
    nics: list[Nic] | None = None
    ib: list[IbPort] | None = None
    disks: list[Disk] | None = None


class AgentCost(Part, frozen=True):
    """What watching costs the node."""

    cpu_pct: float | None = None
    """Of one core, over the last ticks."""
    rss_bytes: int | None = None
    threads: int | None = None
    nvml_calls_per_gpu_s: float | None = None
    dropped: int = 0
    """Frames not sent because the pipe was full."""
