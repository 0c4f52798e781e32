"""What a hosts file comes to: one `NodeSpec` a node, and the settings that hold for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class NodeSpec:
    """One node and the way to it, all defaults and groups already applied."""

    name: str
    """The name on the screen; unique in a plan."""
    link: Literal["ssh", "command", "local", "demo", "logs", "prometheus"] = "ssh"
    """logs: no node is connected; the logs of an ended job name it."""
    address: str | None = None
    """What ssh is given instead of `name`."""
    port: int | None = None
    user: str | None = None
    identity_file: tuple[str, ...] = ()
    jump: str | None = None
    """`[user@]host[:port][,...]`, over what ssh_config states."""
    command: tuple[str, ...] = ()
    """The argv of a `command` link; `link.command.command_argv` states where the remote command goes in
    it."""
    python: str | None = None
    """The interpreter on the node; None: the first that is found."""
    activate: str | None = None
    """A shell line that makes the interpreter with torch available; only the probe runs it."""
    labels: dict[str, str] = field(default_factory=dict)
    slots: int | None = None
    """GPUs that this node should have, where the source states it (`slots=8`)."""


@dataclass(frozen=True)
class Thresholds:
    """When a value counts as unhealthy."""

    temperature_margin_c: float = 5.0
    """Warn from this far under the GPU's own slowdown point."""
    temperature_c: float = 85.0
    """Used only where the GPU states no slowdown point of its own."""
    memory_pct: float = 98.0
    disk_pct: float = 95.0
    throttle_pct: float = 10.0
    """Share of a second spent in a thermal or power-brake slowdown."""
    peer_temperature_c: float = 15.0
    """Warn when a GPU is this much hotter than the median of its working neighbours."""
    peer_clock_pct: float = 90.0
    """Warn when a GPU's clock is under this share of its working neighbours' median (a clock under 0.9 of the
    peers' for 30 s is what fleet operators call a straggler)."""
    peer_power_pct: float = 60.0
    """Report the one GPU that draws under this share of its peers' median at full utilization, or over the
    inverse (one that spins in a collective draws a fifth to two fifths of what it draws in training; healthy
    equals differ by a tenth)."""
    peer_busy_pct: float = 75.0
    """Warn when a rank's utilization is under this share of its busy peers' (a score under 0.75 is NVIDIA's
    resiliency extension's straggler)."""
    peer_link_pct: float = 50.0
    """Warn when a GPU's PCIe rate, or its PCIe or NVLink throughput, is at or under this share of its job's
    median (half the lanes)."""
    peer_time_pct: float = 110.0
    """Warn when a rank's own time in a part of the step is over this share of its peers' median, and the
    excess is at least the same share of the step (FALCON, arXiv 2410.12588, calls 10 % a fail-slow)."""
    nvlink_errors: float = 1.0
    """Warn from so many replays or recoveries between two readings; a CRC error counts a hundredth (DCGM's
    health check fails at one replay or recovery, and at 100 CRC errors a second)."""
    idle_held_s: float = 600.0
    """Report of a GPU that a process holds and does not use after so long."""
    slow_step_s: float = 0.0
    """Warn when a step takes longer, also where it did from the start; 0: no such limit."""
    hang_s: float = 60.0
    """A job may hang when no rank has written a line or made a step for so long (and for 5 usual gaps)."""
    hold_s: float = 30.0
    """A value must be over its limit for so long before the alert fires; facts (a lost GPU) fire at once."""
    clear_s: float = 60.0
    """An alert ends when its value was fine for so long."""
    clear_margin: float = 3.0
    """How far (degrees or percent) inside its limit a value must be to count as fine again."""


@dataclass(frozen=True)
class Model:
    """The model that is trained, for what its log does not report."""

    params: float
    """Parameters that work on a token: of a mixture of experts the active ones."""
    layers: int | None = None
    hidden: int | None = None
    seq_len: int | None = None
    """Tokens of one sequence."""
    tokens_per_s: Literal["gpu", "job"] | None = None
    """Whose tokens a second the log reports, where its dialect does not state."""
    peak_tflops: float | None = None
    """What one GPU can compute at most, without sparsity; goes before gpuwatch's own table."""


@dataclass(frozen=True, repr=False)
class ServingEndpoint:
    """An inference server. Its `repr` holds no secret: the URL may hold a password."""

    name: str
    url: str
    """Of its metrics."""

    def __repr__(self) -> str:
        return f"<server {self.name}>"


@dataclass(frozen=True)
class Allocation:
    """The job of a scheduler that the nodes of a plan were taken from, as it was when the plan was made."""

    job: str
    name: str
    user: str
    state: str
    """RUNNING, COMPLETED, ..."""
    ends: float | None
    """Unix seconds: its end, or its time limit while it runs."""
    restarts: int


@dataclass(frozen=True)
class Plan:
    """Everything a session needs to start."""

    nodes: tuple[NodeSpec, ...]
    interval_s: float = 1.0
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Group name -> node names."""
    logs: tuple[str, ...] = ()
    """Globs of log files on the nodes, with {rank}, {host} and {date} where a name holds those."""
    log_options: tuple[str, ...] = ()
    """The same, from the command line (`--log`)."""
    discover: bool = True
    """Whether agents look for the logs of jobs that ended before they came."""
    rules: tuple[str, ...] = ()
    """Rule packs of the person's own, as paths on this machine, beside the ones that gpuwatch brings."""
    state: str | None = None
    """The file with the acknowledgements, silences and notes of all who watch this cluster; None: the
    person's own."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    hang_query: Literal["auto", "manual"] = "auto"
    """Whether the ranks of a job that hangs are asked by themselves, once a hang, or only on a key."""
    actions: bool = True
    """Whether a person may have commands run that change something (drain, cancel, kill); off: never."""
    model: Model | None = None
    serving: tuple[ServingEndpoint, ...] = ()
    """Inference servers whose metrics are read from this machine."""
    allocation: Allocation | None = None
    source: str = ""
    """What the person named: a path, "--local", "--demo"."""
