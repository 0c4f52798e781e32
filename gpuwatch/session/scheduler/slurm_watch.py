"""Queries Slurm every half minute for the state of the watched nodes and jobs."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.slurm.commands import scheduler_facts
from gpuwatch.hosts.slurm.scheduler_facts import SchedulerFacts
from gpuwatch.session.scheduler.repeated_query import RepeatedQuery
from gpuwatch.shell_command import value

EVERY_S = 30.0
"""Seconds between two queries; squeue(1) asks tools not to poll in short loops."""
CHANGES_S = 2.0
"""Seconds within which a new job is included in a query."""
MAX_JOBS = 8
"""Most jobs whose time limit and state are queried."""
Query = Callable[[Sequence[str], Sequence[str]], SchedulerFacts]
"""A function that reads the Slurm states of nodes (first argument, names) and of jobs (second, ids)."""


class SlurmWatch:
    """Queries Slurm on a thread once a job is known.

    Call `update` after every poll, and `close` at the end.
    """

    def __init__(self, query: Query = scheduler_facts, every_s: float = EVERY_S) -> None:
        """Create the watch of Slurm; nothing is queried yet."""
        self._next = 0.0
        self._wanted: tuple[tuple[str, ...], tuple[str, ...]] = (), ()
        self._repeated = RepeatedQuery(lambda: query(*self._wanted), every_s, "slurm")

    def update(self, fleet: Fleet, now: float, *, at_once: bool = False) -> None:
        """Store the results in the fleet, and set which nodes and jobs are queried next.

        The latter at most every `CHANGES_S` (or `at_once`), and not while no job is known.

        Args:
            fleet: Stores the results and names the jobs.
            now: Monotonic seconds.
            at_once: Query now, because an action changed something.
        """
        found = self._repeated.take()
        if found is not None:
            fleet.take_scheduler(found)
        if now < self._next and not at_once:
            return
        self._next = now + CHANGES_S
        jobs = job_ids(fleet)
        if not jobs:
            return
        is_new = jobs != self._wanted[1]
        self._wanted = tuple(name for name in fleet.nodes if value("node", name) is not None), jobs
        self._repeated.start()
        if is_new or at_once:
            self._repeated.hurry()

    def close(self) -> None:
        """Stop the queries."""
        self._repeated.close()


def watch_of(fleet: Fleet) -> SlurmWatch | None:
    """Return a watch if Slurm is installed and no node is simulated or read from logs; else None."""
    links = {spec.link for spec in fleet.plan.nodes}
    if links & {"demo", "logs"} or shutil.which("scontrol") is None:
        return None
    return SlurmWatch()


def job_ids(fleet: Fleet) -> tuple[str, ...]:
    """Return the Slurm job ids of the plan, then those of the ranks; ids of most ranks first.

    At most `MAX_JOBS`. Nothing is known of further jobs, and no action ends them.
    """
    planned = [] if fleet.plan.allocation is None else [fleet.plan.allocation.job]
    carried = Counter(
        process.variables["SLURM_JOB_ID"]
        for node in fleet.nodes.values()
        for process in node.processes
        if process.rank is not None and "SLURM_JOB_ID" in process.variables
    )
    listed = sorted(carried, key=lambda ident: (-carried[ident], ident))
    known = [each for each in (*planned, *listed) if value("job", each) is not None]
    return tuple(dict.fromkeys(known))[:MAX_JOBS]
