"""Running jobs of which no step was seen, too young or too quiet for a verdict on their training."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from gpuwatch.diagnose.model.condition import duration
from gpuwatch.diagnose.model.text import job_text, plural
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import Process

STARTING_S = 600.0
"""A job that is younger and has shown no step may still be loading; an older one that writes lines without
steps trains in a way that is not read, or does not train."""


@dataclass(frozen=True)
class SteplessJob:
    """A job that runs and has shown no step: nothing is known of its training."""

    job: str | None
    """None: ranks that name no job."""
    ranks: int
    """That were seen."""
    nodes: tuple[str, ...]
    started_s: float
    """Seconds since the start of the youngest of its processes."""
    line_s: float | None
    """Seconds since the youngest line of its processes; None: they have written none."""

    @property
    def text(self) -> str:
        """`job run7: 2 ranks, started 14 s ago, no step seen yet, and no line in their logs`."""
        last = "" if self.line_s is not None else ", and no line in their logs"
        started = f"started {duration(self.started_s)} ago"
        return f"{job_text(self.job)}: {plural(self.ranks, 'rank')}, {started}, no step seen yet{last}"


def stepless_jobs(fleet: Fleet, now: float, wall: float) -> list[SteplessJob]:
    """Jobs without a step since they were started; those that have written lines only while they are young.

    Args:
        fleet: What is known now.
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
            found.append(SteplessJob(job, len(ranks), places, started_s, line_s))
    return found


def _has_stepped(fleet: Fleet, job: str | None, since: float) -> bool:
    """Whether a step of the job was logged after `since` (monotonic), or at a time that is not known."""
    return any(each.job == job and _is_after(each, since) for each in fleet.progress.writers.values())


def _is_after(writer: RankProgress, since: float) -> bool:
    step = writer.values.get("step")
    return step is not None and (not step.sure or step.at >= since)


def _line_s(ranks: list[tuple[Node, Process]], wall: float, started_s: float) -> float | None:
    """Seconds since a file of theirs last grew; what was written before their start is not theirs."""
    ages = [
        age
        for node, process in ranks
        for file in node.logs
        if file.path in process.logs and (age := node.silent_s(file, wall)) is not None and age <= started_s
    ]
    return min(ages, default=None)
