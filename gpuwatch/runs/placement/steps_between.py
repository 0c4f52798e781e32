"""How many steps a rank logged between two places of a file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from gpuwatch.runs.model.record import Row, StepsBetween
from gpuwatch.runs.placement.step_series import StepSeries


def steps_in(series: Sequence[StepSeries]) -> StepsBetween:
    """The question for one file, whose steps `series` holds."""

    def between(row: Row, low: int, high: int | None) -> int:
        rank = row.get("rank")
        steps = {
            point.step
            for each in series
            if rank is None or each.rank in (None, rank)
            for point in each.points[bisect_right(each.points, low, key=attrgetter("offset")) :]
            if high is None or point.offset < high
        }
        return len(steps)

    return between
