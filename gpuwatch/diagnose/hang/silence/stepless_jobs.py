"""Running jobs that have not logged a step, so that no verdict on their training is possible yet."""

from __future__ import annotations

from collections import defaultdict

from msgspec import Struct

from gpuwatch.diagnose.model.text import job_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.number_text import duration, plural
from gpuwatch.wire import Process

MAX_DIGITS = 6
STARTING_S = 600.0
"""Age in seconds of a job below which it may still be loading if it has logged no step.

An older job that writes other lines logs no readable steps, or does not train.
"""


class SteplessJob(Struct, frozen=True):
    """A running job that has not logged a step: nothing is known of its training."""

    job: str | None
    """The job's id; None: the ranks name no job."""
    ranks: int
    """Number of ranks that were seen."""
    nodes: tuple[str, ...]
    started_s: float
    """Seconds since its youngest process started."""
    line_s: float | None
    """Seconds since the newest line of its processes; None: they have written none."""
    restarts: int = 0
    """Number of times that torchrun restarted the job's ranks."""

    @property
    def text(self) -> str:
        """Return `job run7: 2 ranks, started 14 s ago, no step and no log line seen yet`.

        With restarts, `restarted 2 times, the last time 14 s ago`.
        """
        what = "no step" if self.line_s is not None else "no step and no log line"
        started = f"started {duration(self.started_s)} ago"
        if self.restarts:
            started = (
                f"restarted {plural(self.restarts, 'time')}, the last time {duration(self.started_s)} ago"
            )
        return f"{job_text(self.job)}: {plural(self.ranks, 'rank')}, {started}, {what} seen yet"


def stepless_jobs(fleet: Fleet, now: float, wall: float) -> list[SteplessJob]:
    """Return the jobs without a step since their start; those that write other lines only up to STARTING_S.

    Args:
        fleet: All that is known now.
        now: Monotonic seconds, the fleet's own clock.
        wall: Unix seconds now.
    """
    members: dict[str | None, list[tuple[Node, Process]]] = defaultdict(list)
    for node in fleet.nodes.values():
        for process in node.processes:
            if process.rank is not None and process.state != "Z":
                members[process.job].append((node, process))
    found = []
    for job, ranks in members.items():
        ages = [wall - (each.start - node.offset_s) for node, each in ranks if each.start is not None]
        if not ages or _has_stepped(fleet, job, now - max(0.0, min(ages))):
            continue
        started_s = max(0.0, min(ages))
        line_s = _line_s(ranks, wall, max(ages))
        if line_s is None or started_s < STARTING_S:
            places = tuple(dict.fromkeys(node.name for node, _ in ranks))
            restarts = max(restarts_of(each) for _, each in ranks)
            found.append(SteplessJob(job, len(ranks), places, started_s, line_s, restarts))
    return found


def restarts_of(process: Process) -> int:
    """Return how often torchrun restarted the job of this process; 0: never or unknown.

    It is the value of TORCHELASTIC_RESTART_COUNT.
    """
    count = process.variables.get("TORCHELASTIC_RESTART_COUNT", "")
    return int(count) if count.isdecimal() and len(count) <= MAX_DIGITS else 0


def _has_stepped(fleet: Fleet, job: str | None, since: float) -> bool:
    """Return True if a step of the job was logged after `since` (monotonic) or at an unknown time."""
    return any(each.job == job and _is_after(each, since) for each in fleet.progress.writers.values())


def _is_after(writer: RankProgress, since: float) -> bool:
    step = writer.values.get("step")
    return step is not None and (not step.sure or step.at >= since)


def _line_s(ranks: list[tuple[Node, Process]], wall: float, started_s: float) -> float | None:
    """Return the seconds since any log file of these ranks last grew; None: not since the ranks started.

    `started_s`: age of the oldest process in seconds.
    """
    ages = [
        age
        for node, process in ranks
        for file in node.logs
        if file.path in process.logs and (age := node.silent_s(file, wall)) is not None and age <= started_s
    ]
    return min(ages, default=None)
