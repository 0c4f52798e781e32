"""Builds the facts of one job for screen 6, from its logs, its ranks' placement and their GPUs.

Pure functions; the caller decides how often. Stale values are never compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from gpuwatch.diagnose.training.job_view.facts import JobFacts, step_times, usual_gap
from gpuwatch.diagnose.training.job_view.imbalance import compare
from gpuwatch.diagnose.training.job_view.job_metrics import fill_numbers, fill_size
from gpuwatch.diagnose.training.job_view.rank_placement import Job, RankPlacement, Writer
from gpuwatch.diagnose.training.job_view.rank_rows import of_ranks, rank_rows
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.fleet.logs.session_logs import joined_sessions

Received: TypeAlias = dict[Job, list[Writer]]

PERCENTILES_OF = 500
LATE_GAPS, MIN_STALE_S, LATE_UNKNOWN_S = 3.0, 10.0, 120.0
"""Logged values are late after LATE_GAPS usual gaps, but at least MIN_STALE_S seconds.

If the usual gap is unknown, they are late after LATE_UNKNOWN_S seconds.
"""


def received_from(fleet: Fleet, placement: RankPlacement) -> Received:
    """Return job -> its log writers, each with the rank's place (None: unknown).

    The logs of one terminal session count as one writer.
    """
    received: Received = {}
    for writer in joined_sessions(fleet.progress.writers.values()):
        job, placed = placement.of(writer)
        received.setdefault(job, []).append((writer, placed))
    return received


def jobs_of(placement: RankPlacement, received: Received) -> list[Job]:
    """Return all jobs: running ones (those with steps first, then by size), then ended ones, newest first."""
    stepped = {
        job: max((v.stepped_at for v, _ in writers if v.stepped_at is not None), default=None)
        for job, writers in received.items()
    }

    def order(job: Job) -> tuple[bool, bool, int, float, str]:
        here, last = placement.jobs.get(job, {}), stepped.get(job)
        alive = sum([placed.alive for placed in here.values()])
        return not alive, last is None, -alive, 0.0 if alive else -(last or 0.0), job or ""

    return sorted({**dict.fromkeys(placement.jobs), **dict.fromkeys(received)}, key=order)


def overview(
    fleet: Fleet, placement: RankPlacement, received: Received, job: Job, now: float, wall: float
) -> Iterator[JobFacts | None]:
    """Yield None between the parts of the work, and last the facts of the job.

    The computation is split because 1,024 ranks at once would delay a frame.

    Args:
        fleet: All that is known.
        placement: The rank placement, refreshed with that fleet.
        received: The result of `received_from` for both.
        job: One of `jobs_of`.
        now: Monotonic seconds, the fleet's own clock.
        wall: The unix time of the same moment, since log files name the second in which they grew.
    """
    here = placement.jobs.get(job, {})
    writers = _writers(received.get(job, ()))
    speaking = sum(writer.stepped_at is not None for writer, _ in of_ranks(writers))
    made = JobFacts(job, now, speaking=speaking)
    made.speaker = _speaker([writer for writer, _ in writers])
    _pace(made)
    yield None
    made.rows = rank_rows(fleet, here.values(), writers, now, wall)
    yield None
    fill_size(made, fleet, here.values())
    fill_numbers(made, fleet, writers, now)
    compare(made, now)
    yield made


def _writers(reported: Iterable[Writer]) -> list[Writer]:
    """Return the writers of a job: of each rank only the newest, and all whose rank is unknown."""
    found: dict[object, Writer] = {}
    for writer, placed in reported:
        rank = writer.rank if placed is None else placed.rank
        who: object = id(writer) if rank is None else ("rank", rank)
        known = found.get(who)
        if known is None or _freshness(known[0]) < _freshness(writer):
            found[who] = writer, placed
    return list(found.values())


def _freshness(writer: RankProgress) -> tuple[float, float]:
    return writer.stepped_at or -math.inf, writer.received_at


def _speaker(writers: Sequence[RankProgress]) -> RankProgress | None:
    """Return the writer that represents the job: of those that step now, one with a loss and most values.

    Of equals, the one with the most steps, then the lowest rank. If none ever logged a step, the newest; None
    without writers.
    """
    stepped = [writer for writer in writers if writer.stepped_at is not None]
    if not stepped:
        return max(writers, key=_freshness, default=None)
    gap = max(_gap(max(stepped, key=_freshness)) or 0.0, MIN_STALE_S)
    newest = max(writer.stepped_at or 0.0 for writer in stepped)
    current = [writer for writer in stepped if newest - (writer.stepped_at or 0.0) <= gap]
    return max(current, key=lambda v: ("loss" in v.values, len(v.values), len(v.steps), -(v.rank or 0)))


def _gap(writer: RankProgress) -> float | None:
    """Return the usual seconds between two logged steps; None: unknown."""
    return usual_gap([step.at for step in writer.steps])


def _pace(made: JobFacts) -> None:
    writer = made.speaker
    if writer is None:
        return
    made.gap_s = _gap(writer)
    made.late_s = LATE_UNKNOWN_S if made.gap_s is None else max(MIN_STALE_S, LATE_GAPS * made.gap_s)
    made.times = step_times(writer.step_times(PERCENTILES_OF))
