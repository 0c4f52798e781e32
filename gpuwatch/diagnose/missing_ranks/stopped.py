"""Launchers, and ranks without a log of their own, that a signal has stopped (SIGSTOP, Ctrl-Z).

Example: mpirun forwards the lines of its ranks into one file, and rank 2 is stopped. The file shows no rank's
silence, but the state of the process does. If mpirun itself is stopped, its ranks run on until its pipes are
full.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.diagnose.missing_ranks.listed_ranks import Member
from gpuwatch.diagnose.missing_ranks.missing import age_s, members_by_job
from gpuwatch.diagnose.model.text import ranks_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import Process

CODE = "rank.suspended"
LAUNCHER_CODE = "launcher.suspended"
STOPPED = "T"
"""State of a process that a signal has stopped; under a debugger it is `t`."""
STARTED_S = 10.0
"""Seconds after its start in which a process is not judged: a launcher may stop it briefly to prepare it."""


class StoppedRanks(Struct, frozen=True):
    """The ranks of one job that are stopped while their processes exist."""

    job: str
    ranks: tuple[int, ...]
    world_size: int
    present: int
    node: Node
    """The node of the lowest stopped rank."""
    pid: int
    """The process id of the lowest stopped rank, or of the launcher."""
    inferred: bool
    silent_s: float = 0.0
    code: str = CODE
    title: str = "Ranks stopped by a signal"

    @property
    def rank(self) -> int | None:
        """Return the only stopped rank if its number is certain; else None, also for a launcher."""
        only = self.code == CODE and len(self.ranks) == 1 and not self.inferred
        return self.ranks[0] if only else None

    @property
    def text(self) -> str:
        """Return `rank 2 (n1) is stopped by a signal (pid 4711, state T)`, or the same about a launcher."""
        if self.code == LAUNCHER_CODE:
            whose = f"the launcher of {ranks_text(self.ranks)} ({self.node.name})"
            how = f"is stopped by a signal (pid {self.pid}, state {STOPPED})"
            return f"{whose} {how}: it neither reads their output nor sees their end"
        named = ranks_text(self.ranks).replace(" ", " ~", 1) if self.inferred else ranks_text(self.ranks)
        verb = "is" if len(self.ranks) == 1 else "are"
        return f"{named} {verb} stopped by a signal (pid {self.pid} on {self.node.name}, state {STOPPED})"


def stopped_ranks(fleet: Fleet, now: float) -> list[StoppedRanks]:
    """Return the stopped ranks of each job, and those whose launcher is stopped. `now`: monotonic seconds.

    Stopped ranks with a followed log are left out: their silence shows the stop.
    """
    found = []
    for job, members in members_by_job(fleet).items():
        stopped = [each for each in members if _is_stopped(*each, now)]
        if stopped:
            found.append(_stopped(job, stopped, members))
        behind = [each for each in members if each[1].launcher_stopped]
        if behind:
            whole = _stopped(job, behind, members)
            launcher = next(one.launcher for node, one in behind if node.name == whole.node.name)
            title = "A launcher stopped by a signal"
            found.append(replace(whole, code=LAUNCHER_CODE, title=title, pid=launcher or whole.pid))
    return found


def _stopped(job: str, stopped: Sequence[Member], members: Sequence[Member]) -> StoppedRanks:
    node, first = min(stopped, key=lambda each: (each[1].rank or 0, each[0].name))
    ranks = tuple(sorted({process.rank or 0 for _, process in stopped}))
    world = first.world_size or len(members)
    inferred = any(process.inferred for _, process in stopped)
    return StoppedRanks(job, ranks, world, len(members), node, first.pid, inferred)


def _is_stopped(node: Node, process: Process, now: float) -> bool:
    return process.state == STOPPED and not process.logs and age_s(node, process, now) >= STARTED_S
