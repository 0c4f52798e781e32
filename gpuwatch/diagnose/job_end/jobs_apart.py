"""Tells apart jobs whose folders have steps of the same ranks, and judges each."""

from __future__ import annotations

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
    for folder, group in tracks_by_job(tracks).items():
        files = {file for file in closings if str(PurePath(file).parent) == folder}
        own = [alert for alert in alerts if any(proof.file in files for proof in alert.proof)]
        last = {file: closing for file, closing in closings.items() if file in files}
        end = job_end(group, own, last, growing=growing, settled=settled)
        found.append(NamedEnd(PurePath(folder).name, end, group))
    return tuple(sorted(found, key=lambda each: GRAVEST.index(each.end.state)))
