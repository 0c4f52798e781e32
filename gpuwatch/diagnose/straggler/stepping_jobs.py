"""Tracks which jobs make steps now, and for how long without a pause."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from statistics import median

from msgspec import Struct

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress

MIN_GAP_S, GAPS = 10.0, 1.5
"""A job steps now if it logged a step within these seconds, or within this number of its usual gaps.

A job that does not step is left to the hang verdict: a rank that loads or saves a checkpoint works alone,
too.
"""
RECENT_STEPS = 16


class SteppingPace(Struct, frozen=True):
    """The pace of a job that steps now: seconds since its last step, and the limit for a pause."""

    stepped_s: float
    """Seconds since the job's last logged step."""
    limit_s: float
    """Seconds without a step after which the job counts as paused."""


def paces(fleet: Fleet, now: float) -> dict[str, SteppingPace]:
    """Return job -> pace of each job that steps now, by the writer of its newest step."""
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
    """Return the job of a log's writer: the job that it names, else the only job on its node; else None."""
    if writer.job is not None or writer.node not in fleet.nodes:
        return writer.job
    here = {process.job for process in fleet.nodes[writer.node].processes} - {None}
    return here.pop() if len(here) == 1 else None


def limit_of(writer: RankProgress) -> float:
    """Return the seconds without a logged step after which a job counts as paused."""
    reported = [writer.steps[n].at for n in range(-min(RECENT_STEPS, len(writer.steps)), 0)]
    gaps = [later - before for before, later in pairwise(reported)]
    return max(MIN_GAP_S, GAPS * median(gaps)) if gaps else MIN_GAP_S
