"""Ranks that save, evaluate or prepare something for all and then continue, by their stacks. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from gpuwatch.diagnose.hang.stacks.groups import JobStacks, RankStack, main_thread

PAUSING = re.compile(
    r"sav(?:e|ing)|checkpoint|ckpt|eval|validat|compil|tokeni[sz]|preprocess|warm_?up|upload|export|push_to",
    re.IGNORECASE,
)
"""Matches names of functions for work that one rank may do for all, and that ends by itself."""


def pauses(stack: RankStack) -> bool:
    """Return True if a frame of the rank's main thread is in a function that saves, evaluates or prepares."""
    thread = main_thread(stack)
    return thread is not None and any(PAUSING.search(frame.function) for frame in thread.frames)


def pausing_ranks(jobs: Iterable[JobStacks], job: str | None, ranks: Collection[int]) -> tuple[int, ...]:
    """Return those of `ranks` that pause, sorted. `job`: theirs; None: any."""
    found = {
        each.rank
        for one in jobs
        if job in (None, one.job)
        for spot in one.spots
        for each in spot.ranks
        if each.rank in ranks and pauses(each)
    }
    return tuple(sorted(rank for rank in found if rank is not None))
