"""Separates jobs whose folders have steps of the same ranks, and judges each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.job_end.closing import LogEnd
from gpuwatch.diagnose.job_end.job_end import JobEnd, job_end
from gpuwatch.diagnose.job_end.stopped_ranks import APART_STEPS
from gpuwatch.diagnose.job_end.training_tracks import stride_of
from gpuwatch.diagnose.model.alert import Alert

GRAVEST = ("stopped", "unknown", "running", "finished")
PART = re.compile(
    r"(?i)(?:fold|seed|trial|exp(?:eriment)?|config|variant|arm|ablation|task|model|lr|size)[-_.]?\w{0,12}$"
)
"""Names of parts of an experiment, each of which has to finish."""
FIRST_STEPS = 2
"""A job that starts from scratch logs its first step within this many logged steps."""


class NamedEnd(NamedTuple):
    """How one of several jobs ended, with the name of its folder and its steps."""

    name: str
    """Name of its folder."""
    end: JobEnd
    tracks: Sequence[StepTrack]


def tracks_by_job(tracks: Sequence[StepTrack]) -> dict[str, list[StepTrack]]:
    """Return folder -> its tracks if several folders each have the same ranks from their first steps.

    Else {}.

    A folder that continues another one, or ended at about the same step, belongs to the same job.
    """
    folders: dict[str, list[StepTrack]] = defaultdict(list)
    for track in tracks:
        if track.marks and track.total_steps is not None and not track.per_epoch:
            folders[str(PurePath(track.file).parent)].append(track)
    ranks = [{track.rank for track in group} for group in folders.values()]
    same = len(ranks) > 1 and None not in ranks[0] and all(each == ranks[0] for each in ranks)
    anew = all(
        track.marks[0].step <= FIRST_STEPS * stride_of(track) for group in folders.values() for track in group
    )
    ends = [max(track.marks[-1].step for track in group) for group in folders.values()]
    stride = max((stride_of(track) for group in folders.values() for track in group), default=1)
    apart = max(ends, default=0) - min(ends, default=0) > APART_STEPS * stride
    return dict(folders) if same and anew and apart else {}


def runs_that_stop(tracks: Sequence[StepTrack]) -> dict[str, list[StepTrack]]:
    """File -> its steps, for logs of several runs from their first step on, of which one does not finish.

    Empty where there is no such run, or where the logs may be of the processes of one job: they lie in one
    folder and overlap in time. A run that stopped is left out if a later one finished; without times the
    order is that of the names, and only parts of an experiment (`fold2`, `seed-3`) are no attempts.
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
    """True if a run began after another one's last step."""
    first, last = track.marks[0].at, other.marks[-1].at
    return first is not None and last is not None and first > last


def _overlap(track: StepTrack, other: StepTrack) -> bool:
    """True if two runs logged steps at the same time, or it is not known when."""
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
    for folder, group in (tracks_by_job(tracks) or runs_that_stop(tracks)).items():
        files = {file for file in closings if folder in (file, str(PurePath(file).parent))}
        own = [alert for alert in alerts if any(proof.file in files for proof in alert.proof)]
        last = {file: closing for file, closing in closings.items() if file in files}
        end = job_end(group, own, last, growing=growing, settled=settled)
        found.append(NamedEnd(_named(folder, closings), end, group))
    return tuple(sorted(found, key=lambda each: GRAVEST.index(each.end.state)))


def _named(place: str, closings: Mapping[str, LogEnd]) -> str:
    """Return the name of a job: its folder's, or its file's if several jobs are in one folder."""
    path = PurePath(place)
    if place not in closings:
        return path.name
    beside = sum(PurePath(file).parent == path.parent for file in closings)
    return path.name if beside > 1 else path.parent.name
