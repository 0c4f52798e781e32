"""The steps of ended jobs, as `scan` read them from the log files."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gpuwatch.diagnose.incidents.last_activity import Activity, last_line, shortened
from gpuwatch.diagnose.incidents.outcome import Mark, StepTrack
from gpuwatch.runs.scan import LogScan
from gpuwatch.runs.step_series import StepPoint, StepSeries


def tracks_of(files: Iterable[LogScan]) -> list[StepTrack]:
    """One track for each rank and file; the rank is that of the lines, else that of the file."""
    return [_track(file, series) for file in files for series in file.series]


def last_lines_of(files: Iterable[LogScan]) -> dict[int, Activity]:
    """Rank -> the last line of its own file that says what it did; of several files the one written last."""
    found: dict[int, Activity] = {}
    for file in sorted(files, key=lambda each: each.last_time or each.mtime):
        text = last_line(file.last_lines)
        if file.rank is not None and text is not None and not file.kernel:
            found[file.rank] = Activity(shortened(text), file.rank, file.name, text)
    return found


def _track(file: LogScan, series: StepSeries) -> StepTrack:
    rank = file.rank if series.rank is None else series.rank
    marks = [Mark(point.step, point.at, point.offset, is_finite(point)) for point in series.points]
    alone = len({each.rank for each in file.series}) == 1
    return StepTrack(series.host or file.node, file.name, rank, None, marks, series.total_steps, alone)


def is_finite(point: StepPoint) -> bool:
    """Whether loss and gradient norm are numbers, as far as the line gives them."""
    return all(value is None or math.isfinite(value) for value in (point.loss, point.grad_norm))
