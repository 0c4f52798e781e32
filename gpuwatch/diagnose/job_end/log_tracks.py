"""Step tracks of ended jobs, as `scan` reads them from log files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.diagnose.error_outcome.step_track import Mark, StepTrack
from gpuwatch.diagnose.job_end.closing import LogEnd
from gpuwatch.diagnose.job_end.saved_stacks import stack_verdict
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import TIMEOUTS
from gpuwatch.diagnose.model.last_activity import Activity, last_line, without_bar
from gpuwatch.runs.files.excerpts.around import Around
from gpuwatch.runs.scan.result import LogScan
from gpuwatch.runs.steps.step_series import StepPoint, StepSeries

FRESH_S = 120.0
"""Age in seconds of a job's newest line up to which the job counts as still writing."""
STEP_TIMES = 10
"""Number of step times without a new line after which a log counts as no longer written."""


def tracks_of(files: Iterable[LogScan]) -> list[StepTrack]:
    """Return one track for each rank and file; the rank is that of the lines, or else of the file."""
    return [_track(file, series) for file in files for series in file.series]


def last_lines_of(files: Iterable[LogScan]) -> dict[int, Activity]:
    """Return rank -> the last line of its own file that shows an activity.

    If a rank has several files, the one written last counts.
    """
    found: dict[int, Activity] = {}
    for file in sorted(files, key=lambda each: each.last_time or each.mtime):
        text = last_line(file.last_lines)
        if file.rank is not None and text is not None and not file.kernel:
            found[file.rank] = Activity(without_bar(text), file.rank, file.name, text)
    return found


def shared_last_lines(
    alerts: Iterable[Alert], read: Callable[[Alert], Around | None], *, tasks_are_ranks: bool
) -> dict[int, Activity]:
    """Return rank -> its last line above the first timeout, in a file that several ranks write.

    The lines must name the ranks.

    Args:
        alerts: The alerts from the lines of the job.
        read: Returns the lines around an alert.
        tasks_are_ranks: Whether the numbers of `srun -l` are ranks.
    """
    waiting = [alert for alert in alerts if alert in TIMEOUTS and alert.proof[0].offset is not None]
    first = min(waiting, key=lambda alert: (alert.first, alert.proof[0].offset or 0), default=None)
    around = None if first is None else read(first)
    found: dict[int, Activity] = {}
    if first is None or around is None:
        return found
    for line in reversed(around.above):
        for text, by in messages(line.encode())[0]:
            rank = by.task if by.rank is None and tasks_are_ranks else by.rank
            if rank is not None and rank not in found and last_line([text]) is not None:
                found[rank] = Activity(without_bar(text), rank, first.proof[0].file, line)
    return found


def closings_of(files: Iterable[LogScan]) -> dict[str, LogEnd]:
    """Return file -> how it ends; kernel logs are left out."""
    files = list(files)
    verdict = stack_verdict(files)
    apart = () if verdict is None else verdict.culprits
    return {
        file.name: LogEnd(
            file.mtime if file.last_time is None else file.last_time,
            file.last_lines,
            file.epochs,
            file.rank in apart,
        )
        for file in files
        if not file.kernel
    }


def is_growing(files: Iterable[LogScan], now: float) -> bool:
    """Return True if a log is being written: it grew during the scan, or its last line and change are recent.

    A copy has a recent change, but no recent last line. `now`: unix seconds.
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
    """Return True if no log is written any more: its last line, or else its last change, is long ago.

    A copy has a later modification time than its last line. `now`: unix seconds.
    """
    quiet_s = max(FRESH_S, STEP_TIMES * max((step_s(track) for track in tracks), default=0.0))
    logs = [file for file in files if not file.kernel]
    return not any(
        file.grew or now - (file.mtime if file.last_time is None else file.last_time) <= quiet_s
        for file in logs
    )


def step_s(track: StepTrack) -> float:
    """Return the longest time in seconds between two of the last logged steps.

    0.0: the steps have no times.
    """
    times = [mark.at for mark in track.marks[-STEP_TIMES:] if mark.at is not None]
    return max((later - before for before, later in pairwise(times)), default=0.0)


def _track(file: LogScan, series: StepSeries) -> StepTrack:
    rank = file.rank if series.rank is None else series.rank
    marks = [Mark(point.step, point.at, point.offset, is_finite(point)) for point in series.points]
    alone = len({each.rank for each in file.series}) == 1
    total = series.total_steps
    node = series.host or file.node
    epoch = series.values.get("epoch") if series.per_epoch else None
    known = epoch is not None and math.isfinite(epoch)
    return StepTrack(
        node, file.name, rank, None, marks, total, alone, series.per_epoch, int(epoch or 0) if known else None
    )


def is_finite(point: StepPoint) -> bool:
    """Return True if loss and gradient norm are finite, or missing."""
    return all(value is None or math.isfinite(value) for value in (point.loss, point.grad_norm))
