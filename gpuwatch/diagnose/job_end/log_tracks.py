"""The steps of ended jobs, as `scan` read them from the log files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from gpuwatch.diagnose.error_outcome.step_track import Mark, StepTrack
from gpuwatch.diagnose.job_end.closing import LogEnd
from gpuwatch.diagnose.model.last_activity import Activity, last_line, shortened
from gpuwatch.runs.placement.step_series import StepPoint, StepSeries
from gpuwatch.runs.scan.result import LogScan

FRESH_S = 120.0
"""A job whose newest line is no older than this still writes."""
STEP_TIMES = 10
"""A log without a line for so many of its last step times is not written any more."""


def tracks_of(files: Iterable[LogScan]) -> list[StepTrack]:
    """One track for each rank and file; the rank is that of the lines, else that of the file."""
    return [_track(file, series) for file in files for series in file.series]


def last_lines_of(files: Iterable[LogScan]) -> dict[int, Activity]:
    """Rank -> the last line of its own file that states what it did.

    Of several files the one written last.
    """
    found: dict[int, Activity] = {}
    for file in sorted(files, key=lambda each: each.last_time or each.mtime):
        text = last_line(file.last_lines)
        if file.rank is not None and text is not None and not file.kernel:
            found[file.rank] = Activity(shortened(text), file.rank, file.name, text)
    return found


def closings_of(files: Iterable[LogScan]) -> dict[str, LogEnd]:
    """How each log ends."""
    return {
        file.name: LogEnd(
            file.mtime if file.last_time is None else file.last_time, file.last_lines, file.epochs
        )
        for file in files
        if not file.kernel
    }


def is_growing(files: Iterable[LogScan], now: float) -> bool:
    """Whether a log is written now: it grew since it was read, or its last line and change are of now.

    A copy is of now as well, but its last line is not.
    """
    return any(
        file.grew
        or (
            file.last_time is not None
            and 0 <= now - file.last_time <= FRESH_S
            and 0 <= now - file.mtime <= FRESH_S
        )
        for file in files
        if not file.kernel
    )


def is_settled(files: Sequence[LogScan], tracks: Iterable[StepTrack], now: float) -> bool:
    """Whether no log is written any more: the last line, else the last change, is many step times old.

    The modification time of a copy is younger than its last line.
    """
    quiet_s = max(FRESH_S, STEP_TIMES * max((step_s(track) for track in tracks), default=0.0))
    logs = [file for file in files if not file.kernel]
    return not any(
        file.grew or now - (file.mtime if file.last_time is None else file.last_time) <= quiet_s
        for file in logs
    )


def step_s(track: StepTrack) -> float:
    """The longest time between two of the last logged steps (seconds); 0: they carry no time."""
    times = [mark.at for mark in track.marks[-STEP_TIMES:] if mark.at is not None]
    return max((later - before for before, later in pairwise(times)), default=0.0)


def _track(file: LogScan, series: StepSeries) -> StepTrack:
    rank = file.rank if series.rank is None else series.rank
    marks = [Mark(point.step, point.at, point.offset, is_finite(point)) for point in series.points]
    alone = len({each.rank for each in file.series}) == 1
    total = series.total_steps
    node = series.host or file.node
    return StepTrack(node, file.name, rank, None, marks, total, alone, series.per_epoch)


def is_finite(point: StepPoint) -> bool:
    """Whether loss and gradient norm are numbers, as far as the line gives them."""
    return all(value is None or math.isfinite(value) for value in (point.loss, point.grad_norm))
