"""Chooses the ranks to profile: by number, and the median rank of a job for comparison."""

from __future__ import annotations

from gpuwatch.diagnose.training.job_view.build import overview, received_from
from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank, RankPlacement
from gpuwatch.fleet.fleet import Fleet

MIN_PEERS = 2
"""Number of other ranks with step times that a median needs."""


class RankChoiceError(Exception):
    """Raised if a rank does not exist, or is ambiguous."""


def rank_place(placement: RankPlacement, rank: int, job: str | None = None) -> PlacedRank:
    """Return the placement of a rank.

    Raises:
        RankChoiceError: The rank runs nowhere, or in several jobs and `job` is None.
    """
    jobs = [
        name
        for name, places in placement.jobs.items()
        if job in (None, name) and rank in places and places[rank].alive
    ]
    if len(jobs) > 1:
        named = ", ".join(sorted(name or "without a name" for name in jobs))
        raise RankChoiceError(f"rank {rank} runs in several jobs ({named}): choose one by --job")
    if not jobs:
        known = sorted(
            place.rank
            for name, places in placement.jobs.items()
            for place in places.values()
            if place.alive and place.rank is not None and job in (None, name)
        )
        there = f"ranks {known[0]} to {known[-1]} run" if known else "no rank runs"
        of_job = "on these nodes" if job is None else f"in job {job}"
        raise RankChoiceError(f"no running rank {rank}: {there} {of_job}")
    return placement.jobs[jobs[0]][rank]


def median_rank(
    fleet: Fleet, placement: RankPlacement, place: PlacedRank, now: float, wall: float
) -> PlacedRank | None:
    """Return the other rank of the job with the median step time; None: fewer than MIN_PEERS have step times.

    `wall`: unix seconds.
    """
    worked_out = overview(fleet, placement, received_from(fleet, placement), place.job, now, wall)
    facts = next(part for part in worked_out if part is not None)
    here = placement.jobs.get(place.job, {})
    peers = sorted(
        (row.step_s, row.rank)
        for row in facts.rows
        if row.step_s is not None and row.rank is not None and row.rank != place.rank
        if row.rank in here and here[row.rank].alive
    )
    return here[peers[(len(peers) - 1) // 2][1]] if len(peers) >= MIN_PEERS else None
