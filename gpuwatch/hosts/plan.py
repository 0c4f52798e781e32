"""The plan of a session: one `NodeSpec` per node, and the settings for all nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec import Struct, field


class NodeSpec(Struct, frozen=True):
    """One node and how to connect to it, with all defaults and groups applied."""

    name: str
    """The name on the screen; unique in a plan."""
    link: Literal["ssh", "command", "local", "demo", "logs", "prometheus"] = "ssh"
    """logs: no node is connected; the node is named in the logs of an ended job."""
    address: str | None = None
    """The address for ssh instead of `name`."""
    port: int | None = None
    user: str | None = None
    identity_file: tuple[str, ...] = ()
    jump: str | None = None
    """`[user@]host[:port][,...]`; overrides ssh_config."""
    command: tuple[str, ...] = ()
    """The argv of a `command` link; `link.command.command_argv` inserts the remote command."""
    python: str | None = None
    """The interpreter on the node; None: the first that is found."""
    activate: str | None = None
    """A shell line that makes the interpreter with torch available; only the probe runs it."""
    labels: dict[str, str] = field(default_factory=dict)
    slots: int | None = None
    """Expected number of GPUs, if the source states it (`slots=8`)."""


class Thresholds(Struct, frozen=True):
    """The limits from which a value is unhealthy."""

    temperature_margin_c: float = 5.0
    """Warn from this many degrees below the GPU's own slowdown temperature."""
    temperature_c: float = 85.0
    """Used only if the GPU reports no slowdown temperature."""
    memory_pct: float = 98.0
    disk_pct: float = 95.0
    throttle_pct: float = 10.0
    """Percent of a second spent in a thermal or power-brake slowdown."""
    peer_temperature_c: float = 15.0
    """Warn if a GPU is this many degrees hotter than the median of its working neighbours."""
    peer_clock_pct: float = 90.0
    """Warn if a GPU's clock is below this percentage of its working neighbours' median.

    Fleet operators call a GPU whose clock is below 0.9 of its peers' for 30 s a straggler.
    """
    peer_power_pct: float = 60.0
    """Report the one GPU that draws less power than this percentage of its peers' median at full utilization.

    The inverse is reported too. A GPU that spins in a collective draws 20 to 40 % of its training power;
    healthy equal GPUs differ by 10 %.
    """
    peer_busy_pct: float = 75.0
    """Warn if a rank's utilization is below this percentage of its busy peers'.

    NVIDIA's resiliency extension calls a score below 0.75 a straggler.
    """
    peer_link_pct: float = 50.0
    """Warn if a GPU's PCIe rate, PCIe or NVLink throughput is at most this percentage of its job's median.

    50 %: half the lanes.
    """
    peer_time_pct: float = 110.0
    """Warn if a rank's own time in a part of the step exceeds this percentage of its peers' median.

    The excess must also be at least the same share of the step. FALCON (arXiv 2410.12588) calls 10 % a
    fail-slow.
    """
    nvlink_errors: float = 1.0
    """Warn from this many replays or recoveries between two readings.

    A CRC error counts a hundredth (DCGM's health check fails at one replay or recovery, and at 100 CRC errors
    per second).
    """
    idle_held_s: float = 600.0
    """Report a GPU that a process has held without using it for this many seconds."""
    slow_step_s: float = 0.0
    """Warn if a step takes longer, even if it did from the start; 0: no limit."""
    hang_s: float = 60.0
    """A job may hang if no rank has written a line or made a step for this many seconds.

    It must also be 5 usual gaps.
    """
    hold_s: float = 30.0
    """A value must exceed its limit for this long before the alert fires; facts (a lost GPU) fire at once."""
    clear_s: float = 60.0
    """An alert ends when its value was fine for this long."""
    clear_margin: float = 3.0
    """How far (degrees or percent) inside its limit a value must be to count as normal again."""


class Model(Struct, frozen=True):
    """Facts about the trained model that its log does not report."""

    params: float
    """Parameters used per token: for a mixture of experts the active ones."""
    layers: int | None = None
    hidden: int | None = None
    seq_len: int | None = None
    """Tokens of one sequence."""
    tokens_per_s: Literal["gpu", "job"] | None = None
    """Whether the log's tokens per second are of one GPU or the job, if its dialect does not define it."""
    peak_tflops: float | None = None
    """Peak of one GPU, without sparsity; takes precedence over gpuwatch's own table."""


@dataclass(frozen=True, repr=False)
class ServingEndpoint:
    """An inference server. Its `repr` shows only the name, because the URL may contain a password."""

    name: str
    url: str
    """The URL of its metrics."""

    def __repr__(self) -> str:
        return f"<server {self.name}>"


class Allocation(Struct, frozen=True):
    """A scheduler's job, as its scheduler last reported it."""

    job: str
    name: str
    user: str
    state: str
    """RUNNING, COMPLETED, ..."""
    ends: float | None
    """The end of the job in unix seconds; while it runs, its time limit."""
    restarts: int


class Plan(Struct, frozen=True):
    """Everything that a session needs to start: nodes, log paths, rules, limits, the trained model."""

    nodes: tuple[NodeSpec, ...]
    interval_s: float = 1.0
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Group name -> node names."""
    logs: tuple[str, ...] = ()
    """Globs of log files on the nodes; {rank}, {host} and {date} stand for those parts of a name."""
    log_options: tuple[str, ...] = ()
    """Globs of log files from the command line (`--log`)."""
    discover: bool = True
    """True if agents search for logs of jobs that ended before they started."""
    rules: tuple[str, ...] = ()
    """The user's own rule packs, as local paths, in addition to the built-in ones."""
    state: str | None = None
    """The file with all users' acknowledgements, silences and notes; None: one of the user's own."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    hang_query: Literal["auto", "manual"] = "auto"
    """auto: the ranks of a hanging job are queried automatically, once per hang; manual: only on a key."""
    actions: bool = True
    """True if the user may run commands with side effects (drain, cancel, kill)."""
    model: Model | None = None
    serving: tuple[ServingEndpoint, ...] = ()
    """Inference servers whose metrics are read from this machine."""
    allocation: Allocation | None = None
    source: str = ""
    """The source that the user named: a path, "--local", "--demo"."""
