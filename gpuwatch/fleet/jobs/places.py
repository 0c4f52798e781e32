"""Where every rank runs: rank -> node, GPU, process and log files; address -> node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct, field

KEPT_CHILDREN = 64
"""Maximum number of remembered child pids of a rank: data loaders of several epochs."""

Reach: TypeAlias = Literal["node", "fleet", "none"]
"""The jobs that a file without a known job may belong to.

`node`: a job on the node; `fleet`: any job (shared file system); `none`: no job, as its writers are no ranks.
"""


class RankPlace(Struct, frozen=True):
    """Where one rank of one job runs or ran: node, GPU, process and log files, and when."""

    rank: int
    node: str
    job: str | None = None
    gpu: int | None = None
    """The GPU's index on its node."""
    gpu_uuid: str | None = None
    bus_id: str | None = None
    pid: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    logs: tuple[str, ...] = ()
    since: float | None = None
    """When the rank was first started: unix seconds on our clock."""
    until: float | None = None
    """When the end of the rank was seen (unix seconds); None: not yet."""
    inferred: bool = False
    """True if the rank number is inferred from the order in which sibling processes started."""
    how: str = ""
    """The source in a few words: "environment of pid 4711", "NCCL INFO line", "file name"."""
    started: float | None = None
    """When the rank's current process was started, after restarts of the job."""
    inner_pid: int | None = None
    """The rank's pid in the pid namespace of its container, if it runs in one."""
    launcher: int | None = None
    """The pid of the rank's launcher, if an agent lists the rank."""
    children: tuple[int, ...] = ()
    """Pids of what the current process has started, also of what has ended: the newest `KEPT_CHILDREN`."""
    local_size: int | None = None
    """Number of the job's ranks on the node, if its launcher states it (LOCAL_WORLD_SIZE)."""


class Places(Struct, frozen=True):
    """The places of all ranks, of a live fleet or of the logs of an ended job."""

    ranks: tuple[RankPlace, ...] = ()
    addresses: dict[str, str] = field(default_factory=dict)
    """IP address or host name -> node."""
    gpus: dict[tuple[str, str], int] = field(default_factory=dict)
    """(node, GPU's UUID or PCI address) -> the GPU's index, whether a rank uses it or not."""
    loose: dict[tuple[str, str], Reach] = field(default_factory=dict)
    """(node, log file) without a known job -> the jobs that the file may belong to."""
    live: bool = False
    """True for a live fleet, whose nodes are all known: a log cannot add another node."""
    kernel_logs: frozenset[str] = frozenset()
    """Nodes whose agents read the kernel log."""
    kernel_spans: tuple[tuple[str | None, float, float], ...] = ()
    """For an ended job: node, first and last time (unix seconds) of each kernel log file."""
    job_logs: frozenset[str] = frozenset()
    """For an ended job: files that its ranks wrote, or that contain training steps."""
    system_logs: frozenset[str] = frozenset()
    """For an ended job: files of the system or of a user who wrote none of the other files."""
    world: int | None = None
    """Number of ranks of the only job, as its log lines state it."""
    counted: frozenset[str] = frozenset()
    """Words such as `task` or `worker` whose numbers are ranks, as an ended job's lines consistently show."""
    contested: frozenset[tuple[str | None, int, str]] = frozenset()
    """(job, rank, node) of ranks that two connected nodes listed as running at once, now or before."""
    names: Mapping[str, int] = field(default_factory=dict)
    """For an ended job: names of its processes (pods, containers, actors, files) -> rank."""
    outputs: Mapping[tuple[str, int], frozenset[str]] = {}
    """(node, pid of a rank or of a launcher of ranks) -> the log files that it has open for writing."""
    task_jobs: frozenset[str] = frozenset()
    """Jobs of a live fleet whose Slurm task numbers are their ranks."""
