"""Where every rank runs: rank -> node, GPU, process and log files; address -> node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Reach: TypeAlias = Literal["node", "fleet", "none"]
"""Of a job on the node; on a shared file system, of any job; of none: what writes it is no rank of a job."""


@dataclass(frozen=True)
class RankPlace:
    """One rank of one job."""

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
    """When it was started first: unix seconds on our clock."""
    until: float | None = None
    """When it was seen to have ended."""
    inferred: bool = False
    """Its number is a guess from the order of its siblings' starts."""
    how: str = ""
    """How this is known, in a few words: "environment of pid 4711", "NCCL INFO line", "file name"."""
    started: float | None = None
    """When the process that it is now was started, after restarts of the job."""
    inner_pid: int | None = None
    """In the pid namespace of its container, where it has one."""


@dataclass(frozen=True)
class Places:
    """All that is known. Made of a live fleet, or of the logs of a job that has ended."""

    ranks: tuple[RankPlace, ...] = ()
    addresses: dict[str, str] = field(default_factory=dict)
    """IP address or host name -> node."""
    gpus: dict[tuple[str, str], int] = field(default_factory=dict)
    """(node, GPU's UUID or PCI address) -> the GPU's index, whether a rank uses it or not."""
    loose: dict[tuple[str, str], Reach] = field(default_factory=dict)
    """(node, log file) that is of no known job -> whose it may be."""
    live: bool = False
    """Of a live fleet, whose nodes are all known: a log cannot bring in another one."""
    kernel_logs: frozenset[str] = frozenset()
    """Nodes whose kernel log their agents read."""
    kernel_spans: tuple[tuple[str | None, float, float], ...] = ()
    """Of an ended job: node, first and last time (unix seconds) of each file that is a kernel log."""
    job_logs: frozenset[str] = frozenset()
    """Of an ended job: files that its ranks wrote, or that have steps of a training."""
    system_logs: frozenset[str] = frozenset()
    """Of an ended job: files of the system or the person whose owner wrote none of the other files."""
    world: int | None = None
    """Number of ranks of the only job, as its lines state it."""
    counted: frozenset[str] = frozenset()
    """Words whose numbers are the ranks, as the lines of an ended job agree: `task`, `worker`."""
    contested: frozenset[tuple[str | None, int, str]] = frozenset()
    """Job, rank and node of ranks that two connected nodes listed as running at one time, now or before."""
    task_jobs: frozenset[str] = frozenset()
    """Jobs of a live fleet whose Slurm task numbers are the ranks."""
