"""Separates jobs whose folders have steps of the same ranks, and judges each."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, starmap
from pathlib import PurePath
from typing import NamedTuple

from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.job_end.closing import LogEnd
from gpuwatch.diagnose.job_end.job_end import JobEnd, job_end
from gpuwatch.diagnose.job_end.stopped_ranks import APART_STEPS
from gpuwatch.diagnose.job_end.training_tracks import stride_of
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.runs.steps.job_folders import MAX_JOBS, job_folders

GRAVEST = ("stopped", "unknown", "running", "finished")
PART = re.compile(
    r"(?i)(?:fold|seed|trial|exp(?:eriment)?|config|variant|arm|ablation|task|model|lr|size)[-_.]?\w{0,12}$"
)
"""Matches names of parts of an experiment, each of which has to finish."""
FIRST_STEPS = 2
"""Number of logged steps within which a job that starts from scratch logs its first step."""

SAME_STEP_S, ZONE_S = 10.0, 1800.0
"""Seconds within which a rank logs one step into several files, and the unit of time zones (seconds)."""


class NamedEnd(NamedTuple):
    """How one of several jobs ended, with its name and its steps."""

    name: str
    """Name of its folder; of its file if several jobs share a folder."""
    end: JobEnd
    tracks: Sequence[StepTrack]


def tracks_by_job(tracks: Sequence[StepTrack]) -> dict[str, list[StepTrack]]:
    """Return folder -> its tracks, if the folders are those of several jobs; else {}.

    They are if several folders each have steps of the same rank from the first ones on. A folder that
    continues another one, or ended at about the same step, belongs to the same job; unless some trained at
    the same time, and all logged each step at their own times.
    """
    own = [track for track in tracks if track.marks and track.total_steps is not None and not track.per_epoch]
    ranks: dict[str, set[int | None]] = defaultdict(set)
    for track in own:
        ranks[track.file].add(track.rank)
    folders = {
        folder: [track for track in own if track.file in files]
        for folder, files in job_folders(ranks).items()
    }
    groups = list(folders.values())
    same = len({frozenset(track.rank for track in group) for group in groups}) == 1
    anew = all(track.marks[0].step <= FIRST_STEPS * stride_of(track) for track in own)
    last = sorted(groups, key=_end)
    far = same and _end_apart(last[0], last[-1])
    pairs = list(combinations(groups, 2)) if len(groups) <= MAX_JOBS else []
    beside = any(starmap(_at_one_time, pairs)) and all(starmap(_step_apart, pairs))
    return folders if anew and (far or beside) else {}


def each_apart(folders: Mapping[str, Sequence[StepTrack]]) -> bool:
    """Return True if no two folders that have an unfinished job can hold different logs of one job."""
    short = [group for group in folders.values() if not any(track.complete for track in group)]
    return all(_end_apart(one, other) or _step_apart(one, other) for one, other in combinations(short, 2))


def _end_apart(one: Sequence[StepTrack], other: Sequence[StepTrack]) -> bool:
    return abs(_end(one) - _end(other)) > APART_STEPS * max(map(stride_of, (*one, *other)))


def _end(group: Iterable[StepTrack]) -> int:
    return max(track.marks[-1].step for track in group)


def _at_one_time(one: Sequence[StepTrack], other: Sequence[StepTrack]) -> bool:
    """Return True if both groups of tracks have steps that were logged at the same time."""
    mine, theirs = _times(one).values(), _times(other).values()
    return bool(mine and theirs) and max(min(mine), min(theirs)) <= min(max(mine), max(theirs))


def _step_apart(one: Sequence[StepTrack], other: Sequence[StepTrack]) -> bool:
    """Return True if each common step of a rank in two folders has its own time in each.

    Times that differ by half hours may be those of two time zones.
    """
    mine, theirs = _times(one), _times(other)
    late = [abs(mine[key] - theirs[key]) for key in mine.keys() & theirs.keys()]
    return bool(late) and all(SAME_STEP_S < each % ZONE_S < ZONE_S - SAME_STEP_S for each in late)


def _times(group: Iterable[StepTrack]) -> dict[tuple[int | None, int], float]:
    """Return (rank, step) -> when it was logged (unix seconds)."""
    return {
        (track.rank, mark.step): mark.at for track in group for mark in track.marks if mark.at is not None
    }


def runs_that_stop(tracks: Sequence[StepTrack]) -> dict[str, list[StepTrack]]:
    """Return file -> its steps, for logs of several runs from their first step on, some complete, some not.

    Empty if there is no such run, or if the logs may be of the processes of one job: they lie in one folder
    and overlap in time. A run that stopped is left out if a later one finished. Without times the order of
    the names decides, and only parts of an experiment (`fold2`, `seed-3`) are no attempts.
    """
    own = [track for track in tracks if track.marks and track.total_steps is not None and not track.per_epoch]
    files = {track.file: track for track in own}
    anew = all(track.marks[0].step <= FIRST_STEPS * stride_of(track) for track in own)
    if len(files) < 2 or len(files) != len(own) or not anew or {track.rank for track in own} != {None}:
        return {}
    done = [track for track in own if track.complete]
    short = [track for track in own if not track.complete and _far_from_end(track)]
    beside = len({PurePath(track.file).parent for track in own}) == 1
    open_ = [
        track
        for track in short
        if not any(_is_later(other, track) for other in done)
        and not (beside and any(_overlap(track, other) for other in done))
        and (_dated(track) or _is_part(track) or all(_by_name(other) < _by_name(track) for other in done))
    ]
    if not done or not open_ or {track.node for track in own} - {None}:
        return {}
    return {track.file: [track] for track in (*done, *open_)}


def _far_from_end(track: StepTrack) -> bool:
    return (track.total_steps or 0) - track.marks[-1].step > APART_STEPS * stride_of(track)


def _dated(track: StepTrack) -> bool:
    return track.marks[0].at is not None and track.marks[-1].at is not None


def _is_later(track: StepTrack, other: StepTrack) -> bool:
    """Return True if a run began after another one's last step."""
    first, last = track.marks[0].at, other.marks[-1].at
    return first is not None and last is not None and first > last


def _overlap(track: StepTrack, other: StepTrack) -> bool:
    """Return True if two runs logged steps at the same time, or if their times are unknown."""
    return not (_dated(track) and _dated(other)) or not (_is_later(track, other) or _is_later(other, track))


def _is_part(track: StepTrack) -> bool:
    path = PurePath(track.file)
    return any(PART.match(part) for part in (path.stem, path.parent.name))


def _by_name(track: StepTrack) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", track.file)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def ends_by_job(
    tracks: Sequence[StepTrack],
    alerts: Sequence[Alert],
    closings: Mapping[str, LogEnd],
    *,
    growing: bool,
    settled: bool,
) -> tuple[NamedEnd, ...]:
    """Return how each of several jobs ended, failures first; empty: there is one job.

    Arguments as for `job_end`.
    """
    found = []
    jobs = tracks_by_job(tracks) or runs_that_stop(tracks)
    names = names_of(jobs, closings)
    for folder, group in jobs.items():
        files = {file for file in closings if PurePath(file).is_relative_to(folder)}
        own = [alert for alert in alerts if any(proof.file in files for proof in alert.proof)]
        last = {file: closing for file, closing in closings.items() if file in files}
        end = job_end(group, own, last, growing=growing, settled=settled)
        found.append(NamedEnd(names[folder], end, group))
    return by_gravity(found)


def by_gravity(ends: Iterable[NamedEnd]) -> tuple[NamedEnd, ...]:
    """Return the ends of several jobs, failures first."""
    return tuple(sorted(ends, key=lambda each: GRAVEST.index(each.end.state)))


def names_of(places: Iterable[str], closings: Mapping[str, LogEnd]) -> dict[str, str]:
    """Return place -> name of its job: its folder's, or its file's if several jobs are in one folder.

    If folders have the same name, the name includes the parent folders up to the first difference.
    """
    names = {place: _named(place, closings) for place in places}
    alike = [place for place, name in names.items() if list(names.values()).count(name) > 1]
    if len({PurePath(place).is_absolute() for place in alike}) != 1:
        return names | {place: place for place in alike}
    shared = os.path.commonpath(alike)
    return names | {place: os.path.relpath(place, shared) for place in alike}


def _named(place: str, closings: Mapping[str, LogEnd]) -> str:
    """Return the name of a job: its folder's, or its file's if several jobs are in one folder."""
    path = PurePath(place)
    if place not in closings:
        return path.name
    beside = sum(PurePath(file).parent == path.parent for file in closings)
    return path.name if beside > 1 else path.parent.name
