"""One job as screen 6 shows it, from what its logs tell, where its ranks run and what their GPUs do.

Pure functions; the caller says how often. Values that are too old to be of now are never compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from gpuwatch.diagnose.training.job_view.facts import JobFacts, step_times, usual_gap
from gpuwatch.diagnose.training.job_view.imbalance import compare
from gpuwatch.diagnose.training.job_view.job_metrics import fill_numbers, fill_size
from gpuwatch.diagnose.training.job_view.rank_placement import Job, RankPlacement, Voice
from gpuwatch.diagnose.training.job_view.rank_rows import rank_rows
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress

Heard: TypeAlias = dict[Job, list[Voice]]

PERCENTILES_OF = 500
LATE_GAPS, LATE_S, LATE_UNKNOWN_S = 3.0, 10.0, 120.0
"""Told values are late after so many usual gaps, and at least so long; where no gap is known, the last."""


def heard_of(fleet: Fleet, seats: RankPlacement) -> Heard:
    """What all logs tell, by the job that they speak of."""
    heard: Heard = {}
    for voice in fleet.progress.voices.values():
        job, seat = seats.of(voice)
        heard.setdefault(job, []).append((voice, seat))
    return heard


def jobs_of(seats: RankPlacement, heard: Heard) -> list[Job]:
    """All jobs: those that run and tell steps first, the largest first."""
    told = {job for job, voices in heard.items() if any(v.stepped_at is not None for v, _ in voices)}

    def order(job: Job) -> tuple[bool, bool, int, str]:
        here = seats.jobs.get(job, {})
        alive = sum([seat.alive for seat in here.values()])
        return not alive, job not in told, -alive, job or ""

    return sorted({**dict.fromkeys(seats.jobs), **dict.fromkeys(heard)}, key=order)


def overview(
    fleet: Fleet, seats: RankPlacement, heard: Heard, job: Job, now: float, wall: float
) -> Iterator[JobFacts | None]:
    """All that is known of a job, worked out in parts: of 1,024 ranks all at once would hold up a frame.

    Args:
        fleet: What is known.
        seats: Refreshed with that fleet.
        heard: `heard_of` both.
        job: One of `jobs_of`.
        now: Our monotonic clock, as the fleet's.
        wall: The unix time of the same moment; log files name the second in which they grew.

    Yields:
        None where the next frame may go on; what is known at last.
    """
    here = seats.jobs.get(job, {})
    voices = _voices(heard.get(job, ()))
    made = JobFacts(job, now, speaking=sum(voice.stepped_at is not None for voice, _ in voices))
    made.speaker = _speaker([voice for voice, _ in voices])
    _pace(made)
    yield None
    made.rows = rank_rows(fleet, here.values(), voices, now, wall)
    yield None
    fill_size(made, fleet, here.values())
    fill_numbers(made, voices, fleet.plan.model, now)
    compare(made, now)
    yield made


def _voices(told: Iterable[Voice]) -> list[Voice]:
    """The voices of a job, the freshest of each rank."""
    found: dict[object, Voice] = {}
    for voice, seat in told:
        rank = voice.rank if seat is None else seat.rank
        who: object = id(voice) if rank is None else ("rank", rank)
        known = found.get(who)
        if known is None or _freshness(known[0]) < _freshness(voice):
            found[who] = voice, seat
    return list(found.values())


def _freshness(voice: RankProgress) -> tuple[float, float]:
    return voice.stepped_at or -math.inf, voice.heard_at


def _speaker(voices: Sequence[RankProgress]) -> RankProgress | None:
    """Who says most of those that are about as far as the furthest; of equals the lowest rank."""
    stepped = [voice for voice in voices if voice.stepped_at is not None]
    if not stepped:
        return max(voices, key=_freshness, default=None)
    gap = max(_gap(max(stepped, key=_freshness)) or 0.0, LATE_S)
    newest = max(voice.stepped_at or 0.0 for voice in stepped)
    current = [voice for voice in stepped if newest - (voice.stepped_at or 0.0) <= gap]
    return max(current, key=lambda v: ("loss" in v.values, len(v.values), len(v.steps), -(v.rank or 0)))


def _gap(voice: RankProgress) -> float | None:
    """Usual seconds between two told steps."""
    return usual_gap([step.at for step in voice.steps])


def _pace(made: JobFacts) -> None:
    voice = made.speaker
    if voice is None:
        return
    made.gap_s = _gap(voice)
    made.late_s = LATE_UNKNOWN_S if made.gap_s is None else max(LATE_S, LATE_GAPS * made.gap_s)
    made.times = step_times(voice.step_times(PERCENTILES_OF))
