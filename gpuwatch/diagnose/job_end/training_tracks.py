"""Selects the steps of a job's training, how far each rank came, and whether they are a full run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.job_end.closing import LogEnd
from gpuwatch.diagnose.job_end.epoch_end import SHORT_STEPS, has_several_epochs

RUN_STEPS, RUN_BYTES = 100, 16 << 10
"""Least logged steps, or bytes of log that they span, for a run; less may be a pasted excerpt."""
RANK_STEPS = 20
"""Least logged steps per rank for a run, if several ranks have their own files."""
PEERS, BEHIND_STEPS = 3, 2
"""A rank is behind if PEERS or more others ended together, BEHIND_STEPS logged steps after it."""
LOCKSTEP = 8
"""Number of last steps of each rank that show whether the ranks log in lockstep."""
MAX_BEHIND_SHARE = 0.125
"""Largest share of ranks (or one rank) that can be behind; if more are, they log at other times."""


class RankEnd(Struct, frozen=True):
    """The last step that a rank logged, and when."""

    rank: int
    step: int
    at: float | None
    """When the step was logged (unix seconds); None: undated."""


def main_tracks(tracks: Sequence[StepTrack]) -> list[StepTrack]:
    """Return the tracks of the training, without bars of single epochs or of another length."""
    whole = [track for track in tracks if track.marks and not track.per_epoch]
    totals = [track.total_steps for track in whole if track.total_steps is not None]
    if not totals:
        return whole
    counts = Counter(totals)
    total = max(counts, key=lambda each: (counts[each], each))
    return [track for track in whole if track.total_steps in (None, total)]


def rank_ends(tracks: Iterable[StepTrack]) -> tuple[RankEnd, ...]:
    """Return the last step of each rank, by rank."""
    found: dict[int, RankEnd] = {}
    for track in tracks:
        mark = track.marks[-1]
        if track.rank is not None and (track.rank not in found or found[track.rank].step < mark.step):
            found[track.rank] = RankEnd(track.rank, mark.step, mark.at)
    return tuple(found[rank] for rank in sorted(found))


def ranks_behind(
    tracks: Iterable[StepTrack], ranks: Sequence[RankEnd], least: int = BEHIND_STEPS
) -> tuple[int, ...]:
    """Return the few ranks that ended at least `least` logged steps before the others, which ended together.

    Empty if the others are fewer than PEERS, or those behind are too many.
    """
    furthest = max((each.step for each in ranks), default=0)
    stride = min((stride_of(track) for track in tracks), default=1)
    behind = [each for each in ranks if furthest - each.step >= least * stride]
    others = [each for each in ranks if furthest - each.step < least * stride]
    together = len(others) >= PEERS and all(furthest - each.step < stride for each in others)
    return (
        tuple(each.rank for each in behind)
        if together and len(behind) <= max(1, int(MAX_BEHIND_SHARE * len(ranks)))
        else ()
    )


def behind_in_step(tracks: Sequence[StepTrack]) -> tuple[int, ...]:
    """Return the only rank that lacks the last step in a file that at least `PEERS` others write in lockstep.

    In lockstep, at each of the steps before, all ranks log their line before any logs one of the next step. A
    job that is killed as a whole rarely lacks exactly one line.
    """
    own = [track for track in tracks if track.rank is not None]
    ends = Counter(track.marks[-1].step for track in own)
    if len(own) <= PEERS or len({track.rank for track in own}) != len(own) or len(ends) != 2:
        return ()
    if len({track.file for track in own}) > 1 or ends[max(ends)] != len(own) - 1:
        return ()
    steps = [[(mark.step, mark.offset or 0) for mark in track.marks[-LOCKSTEP:]] for track in own]
    shared = sorted(set.intersection(*({step for step, _ in each} for each in steps)))
    spans = [[offset for each in steps for at, offset in each if at == step] for step in (*shared, max(ends))]
    lockstep = all(max(before) < min(later) for before, later in pairwise(spans))
    if len(shared) < LOCKSTEP // 2 or not lockstep:
        return ()
    return tuple(track.rank or 0 for track in own if track.marks[-1].step < max(ends))


def stride_of(track: StepTrack) -> int:
    """Return the smallest distance between two logged steps; 1 if there are fewer than two."""
    gaps = [later.step - before.step for before, later in pairwise(track.marks) if later.step > before.step]
    return min(gaps, default=1)


def is_run(tracks: Sequence[StepTrack]) -> bool:
    """Return True if the steps are a run, not an excerpt of a few lines."""
    of_ranks = {track.rank for track in tracks if len(track.marks) >= RANK_STEPS} - {None}
    return len(of_ranks) > 1 or any(
        len(track.marks) >= RUN_STEPS
        or (track.marks[-1].offset or 0) - (track.marks[0].offset or 0) >= RUN_BYTES
        for track in tracks
    )


def is_short_run(tracks: Sequence[StepTrack], closings: Mapping[str, LogEnd]) -> bool:
    """Return True if SHORT_STEPS steps or more are logged, with a total or several epochs."""
    return any(
        (track.total_steps is not None or has_several_epochs(closings.get(track.file)))
        and len(track.marks) >= SHORT_STEPS
        for track in tracks
    )


def begins_at_start(tracks: Iterable[StepTrack]) -> bool:
    """Return True if any track has several steps from the first step on, with an announced total."""
    return any(
        track.total_steps is not None and len(track.marks) > 1 and track.marks[0].step <= stride_of(track)
        for track in tracks
    )
