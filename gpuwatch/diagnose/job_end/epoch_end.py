"""Decides whether logs that count epochs but not total steps end before the last epoch. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.job_end.closing import ON_PURPOSE, LogEnd, is_failed_end
from gpuwatch.runs.steps.epochs import EPOCH_OF

SHORT_STEPS = 10
"""Least logged steps by which a log with an announced total counts as a run, if it is no longer written."""


def ended_in_epoch(tracks: Sequence[StepTrack], closings: Mapping[str, LogEnd]) -> tuple[int, int] | None:
    """Return the furthest epoch of these logs and the number of epochs.

    None: a log reached the last epoch, or the epochs are unknown.

    A single epoch with fewer than `SHORT_STEPS` logged steps may be an excerpt and does not count.

    Args:
        tracks: The steps of single epochs.
        closings: File -> how its log ends.
    """
    marks = {track.file: len(track.marks) for track in tracks}
    spans = [
        each.epochs
        for file, each in closings.items()
        if each.epochs is not None and (has_several_epochs(each) or marks.get(file, 0) >= SHORT_STEPS)
    ]
    if not spans or not all(span.short for span in spans):
        return None
    furthest = max(spans, key=lambda span: span.last)
    return furthest.last, furthest.total


def place_in_epoch(tracks: Iterable[StepTrack]) -> tuple[int, int, int | None] | None:
    """Return (epoch, step in it, steps per epoch or None) of the furthest log that counts steps by epoch.

    None: no log does.
    """
    found = [
        (track.epoch, track.marks[-1].step, track.total_steps)
        for track in tracks
        if track.per_epoch and track.marks and track.epoch is not None
    ]
    return max(found, key=lambda place: place[:2], default=None)


def ends_on_purpose(closings: Mapping[str, LogEnd]) -> bool:
    """Return True if a log gives a reason for its end below the line of the last epoch.

    Lines that also stand above that line do not count.
    """
    return any(_states_end(each.lines) for each in closings.values() if each.epochs is not None)


def has_several_epochs(end: LogEnd | None) -> bool:
    """Return True if a log names more than one epoch; one epoch of hundreds may be an excerpt."""
    return end is not None and end.epochs is not None and end.epochs.last > end.epochs.first


def _states_end(lines: Sequence[str]) -> bool:
    last = max((number for number, line in enumerate(lines) if EPOCH_OF.search(line)), default=-1)
    above = {_shape(line) for line in lines[: last + 1]}
    return any(
        ON_PURPOSE.search(line) and not is_failed_end(line) and _shape(line) not in above
        for line in lines[last + 1 :]
    )


def _shape(line: str) -> str:
    return re.sub(r"\d+", "0", line)
