"""Which jobs make steps, and since when without a pause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import median

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress

MIN_GAP_S, GAPS = 10.0, 1.5
"""A job steps when it reported one within so long, or within so many of its usual gaps between reported
steps. One that does not is left to the hang verdict: the rank that loads or saves a checkpoint works
alone, too."""
RECENT_STEPS = 16


@dataclass(frozen=True, slots=True)
class SteppingPace:
    """How a job that steps now does it."""

    stepped_s: float
    """Seconds since it reported a step."""
    limit_s: float
    """After so long it would count as pausing."""


def paces(fleet: Fleet, now: float) -> dict[str, SteppingPace]:
    """The jobs that step now, by the writer that reported a step last."""
    newest: dict[str, RankProgress] = {}
    for writer in fleet.progress.writers.values():
        job = None if writer.stepped_at is None else job_of(writer, fleet)
        if job is not None and (job not in newest or _stepped(writer) > _stepped(newest[job])):
            newest[job] = writer
    found = {job: SteppingPace(now - _stepped(writer), limit_of(writer)) for job, writer in newest.items()}
    return {job: pace for job, pace in found.items() if pace.stepped_s <= pace.limit_s}


def _stepped(writer: RankProgress) -> float:
    return -inf if writer.stepped_at is None else writer.stepped_at


def job_of(writer: RankProgress, fleet: Fleet) -> str | None:
    """Whose words those of a log are: of the job that it names, else of the only one on its node."""
    if writer.job is not None or writer.node not in fleet.nodes:
        return writer.job
    here = {process.job for process in fleet.nodes[writer.node].processes} - {None}
    return here.pop() if len(here) == 1 else None


def limit_of(writer: RankProgress) -> float:
    """Seconds without a reported step after which a job pauses."""
    reported = [writer.steps[n].at for n in range(-min(RECENT_STEPS, len(writer.steps)), 0)]
    gaps = [later - before for before, later in pairwise(reported)]
    return max(MIN_GAP_S, GAPS * median(gaps)) if gaps else MIN_GAP_S


class Stepping:
    """Since when each job has stepped without a pause."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def look(self, paces: Mapping[str, SteppingPace], now: float) -> None:
        """Take in who steps now."""
        self._since = {job: self._since.get(job, now) for job in paces}

    def for_s(self, job: str, now: float) -> float:
        """Seconds that a job has stepped; 0 for one that pauses, or never reported a step."""
        return now - self._since.get(job, now)
