"""GPUs: their constant properties, and their three tiers of values."""

from __future__ import annotations

from typing import Literal, TypeAlias

from gpuwatch.wire.base import FramePart
from gpuwatch.wire.limits import Few, GpuIndex, Many, Moment, Name, Real, Table, Text, Whole

GpuState: TypeAlias = Literal["ok", "unanswered", "stuck", "lost"]
"""unanswered: no values were received since the agent started, and the pending call may still return."""


class GpuInfo(FramePart, frozen=True):
    """The constant properties of a GPU; read once. Keyed by `uuid`, never by index."""

    uuid: Name
    index: GpuIndex
    name: Name
    bus_id: Name | None = None
    memory_total_bytes: Whole | None = None
    unified_memory: bool = False
    """True if the GPU shares the host's memory (GB10, some Grace parts); memory figures are the host's."""
    power_limit_default_w: Real | None = None
    power_limit_max_w: Real | None = None
    temperature_slowdown_c: Whole | None = None
    temperature_shutdown_c: Whole | None = None
    temperature_memory_max_c: Whole | None = None
    sm_clock_max_mhz: Whole | None = None
    memory_clock_max_mhz: Whole | None = None
    pcie_gen_max: Whole | None = None
    pcie_width_max: Whole | None = None
    nvlink_count: Whole | None = None
    ecc_enabled: bool | None = None
    persistence: bool | None = None
    mig_enabled: bool | None = None
    gpm: bool | None = None
    """True if the GPU has GPM activity counters (Hopper and later)."""
    numa_node: Whole | None = None
    cpu_affinity: Name | None = None
    vbios: Name | None = None
    serial: Name | None = None
    architecture: Name | None = None
    identified: bool = True
    """False: the driver counts it, its UUID is unknown, and `uuid` is a key made by the agent."""


class GpuFast(FramePart, frozen=True):
    """A GPU's values that are read at every tick, at most once a second; rates use NVML's own time stamps.

    With ticks below 2 s, `temperature_c`, `throttle` and the `_activity_pct` and `_occupancy_pct` values are
    read at every second tick (to limit NVML calls), so they may be one tick older than `t`.
    """

    t: Moment
    utilization_pct: Real | None = None
    memory_utilization_pct: Real | None = None
    memory_used_bytes: Whole | None = None
    memory_total_bytes: Whole | None = None
    memory_reserved_bytes: Whole | None = None
    temperature_c: Real | None = None
    memory_temperature_c: Real | None = None
    power_w: Real | None = None
    energy_j: Real | None = None
    """Energy used since the driver was loaded."""
    sm_clock_mhz: Whole | None = None
    throttle: Few[Name] | None = None
    """Current throttle reasons.

    idle, app_clocks, power_cap, hw_slowdown, sync_boost, sw_thermal, hw_thermal, power_brake, display. None:
    unknown; []: none.
    """
    throttle_pct: Table[Real] | None = None
    """Percent of the last interval in power_cap, thermal, sync_boost, sw_thermal, hw_thermal, power_brake."""
    pcie_rx_bps: Real | None = None
    pcie_tx_bps: Real | None = None
    nvlink_rx_bps: Real | None = None
    nvlink_tx_bps: Real | None = None
    sm_activity_pct: Real | None = None
    sm_occupancy_pct: Real | None = None
    tensor_activity_pct: Real | None = None
    dram_activity_pct: Real | None = None
    fp32_activity_pct: Real | None = None


class GpuMedium(FramePart, frozen=True):
    """A GPU's values that are read every 5 s: clocks, power limit, PCIe link, encoder, fan."""

    t: Moment
    memory_clock_mhz: Whole | None = None
    power_limit_w: Real | None = None
    """The enforced power limit, which may be below the configured one."""
    pcie_gen: Whole | None = None
    pcie_width: Whole | None = None
    performance_state: Whole | None = None
    encoder_pct: Real | None = None
    decoder_pct: Real | None = None
    fan_pct: Real | None = None


class MigInstance(FramePart, frozen=True):
    """One MIG device of a GPU."""

    uuid: Name
    index: GpuIndex
    profile: Name | None = None
    memory_used_bytes: Whole | None = None
    memory_total_bytes: Whole | None = None


class GpuSlow(FramePart, frozen=True):
    """A GPU's values that are read every 30 s: health counters."""

    t: Moment
    ecc_corrected: Whole | None = None
    ecc_uncorrected: Whole | None = None
    """Volatile: since the driver was loaded."""
    ecc_corrected_total: Whole | None = None
    ecc_uncorrected_total: Whole | None = None
    """Aggregate: over the life of the GPU."""
    remapped_correctable: Whole | None = None
    remapped_uncorrectable: Whole | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pages: Whole | None = None
    retired_pending: bool | None = None
    pcie_replays: Whole | None = None
    nvlink_active: Whole | None = None
    nvlink_errors: Table[Whole] | None = None
    """Totals over all links: crc, replay, recovery, ecc."""
    recovery_action: Name | None = None
    """The GPU's own recommendation: none, gpu_reset, node_reboot, drain_p2p, drain_and_reset."""
    mig: Few[MigInstance] | None = None


class GpuSample(FramePart, frozen=True):
    """The values of one GPU in one tick. A tier is present only in the first frame with its new values."""

    uuid: Name
    state: GpuState = "ok"
    reason: Text | None = None
    """Why it is not ok, in NVML's words ("GPU is lost")."""
    stuck_in: Name | None = None
    """The NVML call that has not returned, for a stuck or unanswered GPU."""
    stuck_s: Real | None = None
    fast: GpuFast | None = None
    medium: GpuMedium | None = None
    slow: GpuSlow | None = None
    missing: Table[Text] | None = None
    """Field -> not_supported | no_permission | error NNN; sent when it changes."""


class Topology(FramePart, frozen=True):
    """The connections between the GPUs, as in `nvidia-smi topo -m`: NV18, PIX, PXB, PHB, NODE, SYS, X."""

    uuids: Few[Name]
    links: Many[Many[Name]]
