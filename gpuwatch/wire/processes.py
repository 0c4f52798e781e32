"""Processes and the ranks they carry."""

from __future__ import annotations

from typing import Literal

from gpuwatch.wire.base import FramePart
from gpuwatch.wire.limits import Few, Moment, Name, Rank, Real, Table, Text, Whole, WorldSize

LOOPBACK = ("localhost", "127.", "[::1]", "::1")
"""How a rendezvous on the loopback begins."""


class ProcessGpu(FramePart, frozen=True):
    """A process's hold on one GPU."""

    uuid: Name
    memory_bytes: Whole | None = None
    sm_pct: Real | None = None


class Process(FramePart, frozen=True):
    """A process that holds a GPU or carries a rank."""

    pid: Whole
    name: Name
    start: Moment | None = None
    user: Name | None = None
    command: Text | None = None
    state: Name | None = None
    """R, S, D, Z, T: as /proc states it."""
    exit_status: Whole | None = None
    """Of one in state Z: its exit code, or minus the signal that ended it; None also where it is 0."""
    gpus: Few[ProcessGpu] = []
    cpu_pct: Real | None = None
    rss_bytes: Whole | None = None
    rank: Rank | None = None
    rank_source: Literal["path", "command", "order"] | None = None
    """Of a rank that its program numbers itself, what reports its number: the path of its log, an
    argument, or only the order in which the processes were started. None: its environment."""
    local_rank: Rank | None = None
    world_size: WorldSize | None = None
    master: Name | None = None
    """`addr:port` of the rendezvous."""
    job: Name | None = None
    """As an agent reports it: Slurm job id, the launcher's run id, or PMIx's namespace. In a fleet: what
    `fleet.jobs.jobs` calls its job."""
    launcher: Whole | None = None
    """The nearest process above a rank that is no rank itself: what started it."""
    container: Name | None = None
    inner_pid: Whole | None = None
    """Its pid in the pid namespace of a container, as its own lines name it; None: the same."""
    variables: Table[Text] = {}
    """Only whitelisted environment variables."""
    piped: bool = False
    """Its output goes into a pipe: what reads that, such as its launcher, has it."""
    logs: Few[Name] = []
    """Regular files behind its write-only descriptors."""

    @property
    def on_loopback(self) -> bool:
        """Whether its rendezvous is reached from its own node alone."""
        return (self.master or "").startswith(LOOPBACK)

    @property
    def inferred(self) -> bool:
        """Whether its rank is a guess: written `~3`, and never a culprit with more than low confidence."""
        return self.rank_source == "order"
