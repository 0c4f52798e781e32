"""Ask Slurm on this machine every half minute for its view of the nodes and jobs that are watched."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.slurm.commands import scheduler_facts
from gpuwatch.hosts.slurm.scheduler_facts import SchedulerFacts
from gpuwatch.session.scheduler.repeated_look import RepeatedLook
from gpuwatch.shell_command import value

EVERY_S = 30.0
"""Between two looks (seconds): squeue(1) asks not to be polled by tools in short loops."""
CHANGES_S = 2.0
"""A job that is new on the nodes is asked for within so long (seconds)."""
MAX_JOBS = 8
"""Jobs whose time and state are asked for."""
Look = Callable[[Sequence[str], Sequence[str]], SchedulerFacts]
"""Reads the standing of nodes, by name, and of jobs, by id."""


class SlurmWatch:
    """Call `update` after every poll, and `close` at the end. Nothing is asked before a job is known."""

    def __init__(self, look: Look = scheduler_facts, every_s: float = EVERY_S) -> None:
        """Ask nothing yet."""
        self._next = 0.0
        self._wanted: tuple[tuple[str, ...], tuple[str, ...]] = (), ()
        self._looking = RepeatedLook(lambda: look(*self._wanted), every_s, "slurm")

    def update(self, fleet: Fleet, now: float, *, at_once: bool = False) -> None:
        """Take in what was found, and note what to ask for.

        Args:
            fleet: Takes the facts.
            now: Monotonic seconds.
            at_once: Ask now: something was changed.
        """
        found = self._looking.take()
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
        self._looking.start()
        if is_new or at_once:
            self._looking.hurry()

    def close(self) -> None:
        """Ask no more."""
        self._looking.close()


def watch_of(fleet: Fleet) -> SlurmWatch | None:
    """A watch where Slurm's commands are here and nodes are really connected; else None."""
    links = {spec.link for spec in fleet.plan.nodes}
    if links & {"demo", "logs"} or shutil.which("scontrol") is None:
        return None
    return SlurmWatch()


def job_ids(fleet: Fleet) -> tuple[str, ...]:
    """The ids of Slurm that the plan names and the ranks carry, those of the plan first."""
    planned = [] if fleet.plan.allocation is None else [fleet.plan.allocation.job]
    carried = {
        process.variables["SLURM_JOB_ID"]
        for node in fleet.nodes.values()
        for process in node.processes
        if process.rank is not None and "SLURM_JOB_ID" in process.variables
    }
    known = [each for each in (*planned, *sorted(carried)) if value("job", each) is not None]
    return tuple(dict.fromkeys(known))[:MAX_JOBS]
