"""Ranks that a signal has stopped (SIGSTOP, Ctrl-Z) and that write no log of their own.

Example: mpirun forwards the lines of its ranks into one file, and rank 2 is stopped. The file shows no rank's
silence, but the state of the process does.
"""

from __future__ import annotations

from msgspec import Struct

from gpuwatch.diagnose.missing_ranks.missing import age_s, members_by_job
from gpuwatch.diagnose.model.text import ranks_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import Process

CODE = "rank.suspended"
STOPPED = "T"
"""State of a process that a signal has stopped; under a debugger it is `t`."""
STARTED_S = 10.0
"""Seconds since its start; a launcher may stop a process for a moment while it prepares it."""


class StoppedRanks(Struct, frozen=True):
    """The ranks of one job that are stopped while their processes exist."""

    job: str
    ranks: tuple[int, ...]
    world_size: int
    present: int
    node: Node
    """Node of the lowest of them."""
    pid: int
    """Process of the lowest of them."""
    inferred: bool
    silent_s: float = 0.0
    code: str = CODE
    title: str = "Ranks stopped by a signal"

    @property
    def text(self) -> str:
        """Return `rank 2 (n1) is stopped by a signal (pid 4711, state T)`."""
        named = ranks_text(self.ranks).replace(" ", " ~", 1) if self.inferred else ranks_text(self.ranks)
        verb = "is" if len(self.ranks) == 1 else "are"
        return f"{named} {verb} stopped by a signal (pid {self.pid} on {self.node.name}, state {STOPPED})"


def stopped_ranks(fleet: Fleet, now: float) -> list[StoppedRanks]:
    """Return the jobs with such ranks. `now`: monotonic seconds."""
    found = []
    for job, members in members_by_job(fleet).items():
        stopped = sorted(
            (
                (process.rank or 0, node.name, node, process)
                for node, process in members
                if _is_stopped(node, process, now)
            ),
            key=lambda each: each[:2],
        )
        if not stopped:
            continue
        _, _, node, first = stopped[0]
        ranks = tuple(dict.fromkeys(rank for rank, *_ in stopped))
        world = first.world_size or len(members)
        inferred = any(process.inferred for *_, process in stopped)
        found.append(StoppedRanks(job, ranks, world, len(members), node, first.pid, inferred))
    return found


def _is_stopped(node: Node, process: Process, now: float) -> bool:
    return process.state == STOPPED and not process.logs and age_s(node, process, now) >= STARTED_S
