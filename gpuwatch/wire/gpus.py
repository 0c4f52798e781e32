"""GPUs: what does not change about one, and its three tiers of values."""

from __future__ import annotations

from typing import Literal

from gpuwatch.wire.part import Part


class GpuInfo(Part, frozen=True):
    """What does not change about a GPU while the agent runs; asked once. Keyed by `uuid`, never by index."""

    uuid: str
    index: int
    name: str
    bus_id: str | None = None
    memory_total_bytes: int | None = None
    unified_memory: bool = False
    """The GPU shares the host's memory (GB10, some Grace parts); memory figures are the host's."""
    power_limit_default_w: float | None = None
    power_limit_max_w: float | None = None
    temperature_slowdown_c: int | None = None
    temperature_shutdown_c: int | None = None
    temperature_memory_max_c: int | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    pcie_gen_max: int | None = None
    pcie_width_max: int | None = None
    nvlink_count: int | None = None
    ecc_enabled: bool | None = None
    persistence: bool | None = None
    mig_enabled: bool | None = None
    gpm: bool | None = None
    """The GPU offers GPM activity counters (Hopper and later)."""
    numa_node: int | None = None
    cpu_affinity: str | None = None
    vbios: str | None = None
    serial: str | None = None
    architecture: str | None = None


class GpuFast(Part, frozen=True):
    """The 1 s tier. Rates come from NVML's own counter time stamps.

    With ticks under 2 s `temperature_c`, `throttle` and the `_activity_pct` and `_occupancy_pct` values are
    read at every second one (the budget of NVML calls), so there they may be one tick older than `t`.
    """

    t: float
    utilization_pct: float | None = None
    memory_utilization_pct: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    temperature_c: float | None = None
    memory_temperature_c: float | None = None
    power_w: float | None = None
    energy_j: float | None = None
    """Since the driver was loaded."""
    sm_clock_mhz: int | None = None
    throttle: list[str] | None = None
    """Clock-event reasons that hold now: idle, app_clocks, power_cap, hw_slowdown, sync_boost, sw_thermal,
    hw_thermal, power_brake, display. None: not known; []: none holds."""
    throttle_pct: dict[str, float] | None = None
    """Share of the last interval in power_cap, thermal, sync_boost, sw_thermal, hw_thermal, power_brake."""
    pcie_rx_bps: float | None = None
    pcie_tx_bps: float | None = None
    nvlink_rx_bps: float | None = None
    nvlink_tx_bps: float | None = None
    sm_activity_pct: float | None = None
    sm_occupancy_pct: float | None = None
    tensor_activity_pct: float | None = None
    dram_activity_pct: float | None = None
    fp32_activity_pct: float | None = None


class GpuMedium(Part, frozen=True):
    """The 5 s tier."""

    t: float
    memory_clock_mhz: int | None = None
    power_limit_w: float | None = None
    """The enforced limit, which may be under the configured one."""
    pcie_gen: int | None = None
    pcie_width: int | None = None
    performance_state: int | None = None
    encoder_pct: float | None = None
    decoder_pct: float | None = None
    fan_pct: float | None = None


class MigInstance(Part, frozen=True):
    """One MIG device of a GPU."""

    uuid: str
    index: int
    profile: str | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None


class GpuSlow(Part, frozen=True):
    """The 30 s tier: health counters."""

    t: float
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    """Volatile: since the driver was loaded."""
    ecc_corrected_total: int | None = None
    ecc_uncorrected_total: int | None = None
    """Aggregate: over the life of the GPU."""
    remapped_correctable: int | None = None
    remapped_uncorrectable: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pages: int | None = None
    retired_pending: bool | None = None
    pcie_replays: int | None = None
    nvlink_active: int | None = None
    nvlink_errors: dict[str, int] | None = None
    """Totals over all links: crc, replay, recovery, ecc."""
    recovery_action: str | None = None
    """The GPU's own verdict: none, gpu_reset, node_reboot, drain_p2p, drain_and_reset."""
    mig: list[MigInstance] | None = None


class GpuSample(Part, frozen=True):
    """One GPU in one tick. A tier is present only in the frame that first carries its new values."""

    uuid: str
    state: Literal["ok", "stuck", "lost"] = "ok"
    reason: str | None = None
    """Why it is not ok, in NVML's words ("GPU is lost")."""
    stuck_in: str | None = None
    """The NVML call that has not come back."""
    stuck_s: float | None = None
    fast: GpuFast | None = None
    medium: GpuMedium | None = None
    slow: GpuSlow | None = None
    missing: dict[str, str] | None = None
    """Field -> not_supported | no_permission | error NNN; sent when it changes."""


class Topology(Part, frozen=True):
    """How the GPUs reach each other, as `nvidia-smi topo -m` says it: NV18, PIX, PXB, PHB, NODE, SYS, X."""

    uuids: list[str]
    links: list[list[str]]
