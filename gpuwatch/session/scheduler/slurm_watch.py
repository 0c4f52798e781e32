"""Ask Slurm on this machine every half minute for its view of the nodes and jobs that are watched."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.slurm.commands import scheduler_facts
from gpuwatch.hosts.slurm.scheduler_facts import SchedulerFacts
from gpuwatch.shell_command import value

EVERY_S = 30.0
"""Between two looks (seconds): squeue(1) asks not to be polled by tools in short loops."""
MAX_JOBS = 8
"""Jobs whose time and state are asked for."""
Look = Callable[[Sequence[str], Sequence[str]], SchedulerFacts]
"""Reads the standing of nodes, by name, and of jobs, by id."""


class SlurmWatch:
    """Call `update` after every poll, and `close` at the end. Nothing is asked before a job is known."""

    def __init__(self, look: Look = scheduler_facts, every_s: float = EVERY_S) -> None:
        """Ask nothing yet."""
        self._look, self._every_s = look, every_s
        self._next = 0.0
        self._wanted: tuple[tuple[str, ...], tuple[str, ...]] = (), ()
        self._found: SchedulerFacts | None = None
        self._changed = threading.Condition()
        self._closing = self._stale = False
        self._thread: threading.Thread | None = None

    def update(self, fleet: Fleet, now: float, *, at_once: bool = False) -> None:
        """Take in what was found, and note what to ask for.

        Args:
            fleet: Takes the facts.
            now: Monotonic seconds.
            at_once: Ask now: something was changed.
        """
        with self._changed:
            found, self._found = self._found, None
            if at_once:
                self._stale = True
                self._changed.notify()
        if found is not None:
            fleet.take_scheduler(found)
        if now < self._next:
            return
        self._next = now + min(self._every_s, 2.0)
        jobs = job_ids(fleet)
        names = tuple(name for name in fleet.nodes if value("node", name) is not None)
        if not jobs:
            return
        with self._changed:
            is_new = jobs != self._wanted[1]
            self._wanted = names, jobs
            if is_new:
                self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="slurm", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ask no more."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def _watch(self) -> None:
        asked: tuple[str, ...] = ()
        while not self._closing:
            with self._changed:
                names, asked = self._wanted
                self._stale = False
            found = self._look(names, asked)
            with self._changed:
                self._found = found
                if not (self._closing or self._stale) and self._wanted[1] == asked:
                    self._changed.wait(self._every_s)


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
