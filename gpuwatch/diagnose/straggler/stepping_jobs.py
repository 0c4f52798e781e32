"""Which jobs make steps, and since when without a pause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import median

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress

LEAST_S, GAPS = 10.0, 1.5
"""A job steps when it told one within so long, or within so many of its usual gaps between told steps. One
that does not is left to the hang verdict: the rank that loads or saves a checkpoint works alone, too."""
RECENT_STEPS = 16


@dataclass(frozen=True, slots=True)
class SteppingPace:
    """How a job that steps now does it."""

    stepped_s: float
    """Seconds since it told a step."""
    limit_s: float
    """After so long it would count as pausing."""


def paces(fleet: Fleet, now: float) -> dict[str, SteppingPace]:
    """The jobs that step now, by the voice that told a step last."""
    newest: dict[str, RankProgress] = {}
    for voice in fleet.progress.voices.values():
        job = None if voice.stepped_at is None else job_of(voice, fleet)
        if job is not None and (job not in newest or _stepped(voice) > _stepped(newest[job])):
            newest[job] = voice
    found = {job: SteppingPace(now - _stepped(voice), limit_of(voice)) for job, voice in newest.items()}
    return {job: pace for job, pace in found.items() if pace.stepped_s <= pace.limit_s}


def _stepped(voice: RankProgress) -> float:
    return -inf if voice.stepped_at is None else voice.stepped_at


def job_of(voice: RankProgress, fleet: Fleet) -> str | None:
    """Whose words those of a log are: of the job that it names, else of the only one on its node."""
    if voice.job is not None or voice.node not in fleet.nodes:
        return voice.job
    here = {process.job for process in fleet.nodes[voice.node].processes} - {None}
    return here.pop() if len(here) == 1 else None


def limit_of(voice: RankProgress) -> float:
    """Seconds without a told step after which a job pauses."""
    told = [voice.steps[n].at for n in range(-min(RECENT_STEPS, len(voice.steps)), 0)]
    gaps = [later - before for before, later in pairwise(told)]
    return max(LEAST_S, GAPS * median(gaps)) if gaps else LEAST_S


class Stepping:
    """Since when each job has stepped without a pause."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def look(self, paces: Mapping[str, SteppingPace], now: float) -> None:
        """Take in who steps now."""
        self._since = {job: self._since.get(job, now) for job in paces}

    def for_s(self, job: str, now: float) -> float:
        """Seconds that a job has stepped; 0 for one that pauses, or never told a step."""
        return now - self._since.get(job, now)
