"""The frames: the one contract between an agent on a node and the cockpit.

An agent writes one JSON object a line; every object carries `v`, `t`, `seq` and `kind`. What the
agent does not know it leaves out, so an absent field is None here and a dash on the screen, never 0.

Units are in the names: `_pct` 0..100, `_bytes`, `_bps` bytes per second, `_w` watts, `_j` joules,
`_c` degrees Celsius, `_mhz`, `_s` seconds. Every `t` is the node's own clock, unix seconds.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from gpuwatch.plain import MAY_STEER, plain

WIRE_VERSION = 1
MAX_LINE_BYTES = 1 << 20
"""A longer line is refused before it is parsed: a full `ranks` frame of a busy node is about 100 kB."""

Severity: TypeAlias = Literal["info", "warning", "critical"]


class Part(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """A piece of a frame; compared by value, never changed after it was decoded."""


# --------------------------------------------------------------------------- GPUs


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


# --------------------------------------------------------------------------- host


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


# --------------------------------------------------------------------------- processes and ranks


class ProcessGpu(Part, frozen=True):
    """A process's hold on one GPU."""

    uuid: str
    memory_bytes: int | None = None
    sm_pct: float | None = None


class Process(Part, frozen=True):
    """A process that holds a GPU or carries a rank."""

    pid: int
    name: str
    start: float | None = None
    user: str | None = None
    command: str | None = None
    state: str | None = None
    """R, S, D, Z, T: as /proc says it."""
    gpus: list[ProcessGpu] = []
    cpu_pct: float | None = None
    rss_bytes: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    master: str | None = None
    """`addr:port` of the rendezvous."""
    job: str | None = None
    """Slurm job id, or the launcher's run id."""
    container: str | None = None
    variables: dict[str, str] = {}
    """Only whitelisted environment variables."""
    logs: list[str] = []
    """Regular files behind its write-only descriptors."""


# --------------------------------------------------------------------------- frames


class Notice(Part, frozen=True):
    """A sentence about the whole node: what is wrong or cannot be read, and the remedy."""

    code: str
    """Stable, for scripts: driver_not_loaded, driver_mismatch, library_missing, no_gpu, gpu_missing,
    gpu_silent, nvml_starting, kernel_log_unreadable, no_proc, mps, nvml_error, no_python,
    nvidia_smi_failed, nvidia_smi_silent, ..."""
    text: str
    severity: Severity = "info"
    remedy: str | None = None


class Frame(msgspec.Struct, tag_field="kind", omit_defaults=True, frozen=True, kw_only=True, gc=False):
    """What every frame carries."""

    t: float
    seq: int
    v: int = WIRE_VERSION


class Hello(Frame, tag="hello", frozen=True):
    """The first frame of a connection; sent again when the inventory or a notice changes."""

    host: str
    agent: str
    python: str
    pid: int
    interval_s: float
    gpus: list[GpuInfo] = []
    gpus_expected: int | None = None
    """NVIDIA display devices on the PCI bus: more than `gpus` means that some are missing ("7 of 8")."""
    topology: Topology | None = None
    notices: list[Notice] = []
    driver: str | None = None
    cuda: str | None = None
    nvml: str | None = None
    kernel: str | None = None
    os: str | None = None
    cpu_model: str | None = None
    cpu_count: int | None = None
    memory_total_bytes: int | None = None
    boot_id: str | None = None
    kernel_log: str | None = None
    """Where the kernel log is read from (/dev/kmsg, journalctl), or None when it cannot be read."""


class Sample(Frame, tag="sample", frozen=True):
    """One tick."""

    gpus: list[GpuSample] = []
    host: HostSample | None = None
    agent: AgentCost | None = None


class Ranks(Frame, tag="ranks", frozen=True):
    """All processes of interest on this node; replaces the list before it."""

    processes: list[Process] = []
    truncated: int = 0
    """How many more there were than are listed."""
    partial: str | None = None
    """Why some are missing ("stuck in nvmlDeviceGetComputeRunningProcesses on GPU 3")."""


class Event(Frame, tag="event", frozen=True):
    """Something happened at a moment: an Xid, a GPU lost or back, driver trouble."""

    event: str
    """xid, sxid, gpu_lost, gpu_back, gpu_stuck, gpu_unstuck, ecc, recovery_action, agent; and nccl_timeout, a
    rank's own words, which only the demo tells as long as no logs are followed."""
    title: str
    severity: Severity = "info"
    gpu: str | None = None
    """UUID, where one GPU is meant."""
    code: int | None = None
    pid: int | None = None
    detail: str | None = None
    remedy: str | None = None
    source: str | None = None
    """nvml, kernel or agent."""
    count: int = 1


class Reply(Frame, tag="reply", frozen=True):
    """The answer to a request."""

    id: int
    error: str | None = None
    data: dict[str, Any] | None = None


class Bye(Frame, tag="bye", frozen=True):
    """The agent leaves, and says why."""

    reason: str


AnyFrame: TypeAlias = Hello | Sample | Ranks | Event | Reply | Bye


class FrameError(ValueError):
    """A line that is not a frame; the message is safe to show."""


_decoder: msgspec.json.Decoder[AnyFrame] = msgspec.json.Decoder(AnyFrame)
_encoder = msgspec.json.Encoder()


def decode(line: bytes) -> AnyFrame:
    """Decode one line; its strings come out harmless (see `gpuwatch.plain`).

    Raises:
        FrameError: too long, not JSON, of an unknown kind, or a field of the wrong type.
    """
    if len(line) > MAX_LINE_BYTES:
        raise FrameError(f"a frame of {len(line)} bytes, over the limit of {MAX_LINE_BYTES}")
    try:
        if MAY_STEER.search(line) is None:
            return _decoder.decode(line)
        frame: AnyFrame = msgspec.convert(_harmless(msgspec.json.decode(line)), AnyFrame)
        return frame
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(plain(str(error))) from error


def _harmless(value: Any) -> Any:  # noqa: ANN401 - JSON is what it is
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_harmless(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): _harmless(item) for key, item in value.items()}
    return value


def encode(frame: AnyFrame) -> bytes:
    """Encode a frame as one line, newline included (demo, record and tests write frames this way)."""
    return _encoder.encode(frame) + b"\n"


# --------------------------------------------------------------------------- requests


class Request(msgspec.Struct, tag_field="do", omit_defaults=True, frozen=True, kw_only=True):
    """What the cockpit asks of an agent, one JSON object a line on the agent's stdin."""

    id: int


class Ping(Request, tag="ping", frozen=True):
    """Answered at once by an empty reply: the heartbeat, and the clock comparison."""


class SetInterval(Request, tag="interval", frozen=True):
    """Change the tick."""

    seconds: float


AnyRequest: TypeAlias = Ping | SetInterval


def encode_request(request: AnyRequest) -> bytes:
    """Encode a request as one line, newline included."""
    return _encoder.encode(request) + b"\n"
