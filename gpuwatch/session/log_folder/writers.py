"""Converts logged steps of an ended job into the fleet's form (`RankProgress`), which screen 6 draws."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from gpuwatch.diagnose.past_jobs.logged_numbers import logged_writer
from gpuwatch.fleet.logs.logged_steps import LoggedStep
from gpuwatch.fleet.logs.progress import KEPT_STEPS, RankProgress, Value
from gpuwatch.runs.scan.result import LogScan
from gpuwatch.runs.steps.step_series import StepSeries
from gpuwatch.session.log_folder.report import UNNAMED_NODE

MAX_STEPS = 200_000
"""Most steps kept over all ranks; at 200 bytes each they take 40 MB."""
MIN_STEPS = 64


def writers_of(files: Sequence[LogScan], job: str, ended_at: float) -> tuple[RankProgress, ...]:
    """Return one `RankProgress` per series of steps, with limited steps.

    `ended_at` replaces missing times.
    """
    found = [(file, series) for file in files for series in file.series]
    most = min(KEPT_STEPS, max(MIN_STEPS, MAX_STEPS // max(1, len(found))))
    return tuple(_writer(file, series, job, ended_at, most) for file, series in found)


def _writer(file: LogScan, series: StepSeries, job: str, ended_at: float, most: int) -> RankProgress:
    writer = logged_writer(file, series).writer
    last = file.last_time or ended_at
    known = math.isfinite(writer.stepped_at or -math.inf)
    at = writer.stepped_at if known else last
    writer.node, writer.job = file.node or UNNAMED_NODE, job
    writer.host = series.host if series.host != writer.node else None
    writer.received_at = max(last, at or last)
    writer.stepped_at = at
    writer.values = {name: Value(value.value, at or last, known) for name, value in writer.values.items()}
    writer.offset = series.points[-1].offset
    writer.steps = deque(_thinned(list(writer.steps), most), maxlen=KEPT_STEPS)
    return writer


def _thinned(steps: Sequence[LoggedStep], most: int) -> Iterator[LoggedStep]:
    """Yield the last `most` / 2 steps, preceded by at most as many earlier ones, evenly spaced."""
    recent = most // 2
    earlier, last = steps[:-recent], steps[-recent:]
    stride = max(1, -(-len(earlier) // recent))
    yield from (replace(step) for step in islice(earlier, 0, None, stride))
    yield from last
