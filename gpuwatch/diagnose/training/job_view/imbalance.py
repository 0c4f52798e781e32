"""Compares a job's ranks: the spread of each column, and which ranks stand out."""

from __future__ import annotations

import math
from itertools import compress
from operator import attrgetter
from statistics import median

from gpuwatch.diagnose.training.job_view.facts import COLUMNS, JobFacts, RankMetric, spread, usual_gap

SILENT_S, SILENT_GAPS = 10.0, 5.0
"""Seconds and usual gaps by which a silent rank's log is older than the median log."""
THROTTLED_PCT = 10.0


def compare(made: JobFacts, now: float) -> None:
    """Set the job's spreads, and for each rank if its logged values are late and where it stands out.

    `now`: monotonic seconds.
    """
    rows = made.rows
    newest = max([row.reported_at for row in rows if row.reported_at is not None], default=math.inf)
    for row in rows:
        row.reported_late = made.late(row.reported_at, now)
    # a GPU's value counts while it is fresh, a reported one when it is of about the newest reported step
    fresh = {
        "gpu": [not row.gpu_late for row in rows],
        "log": [row.reported_at is not None and newest - row.reported_at <= made.late_s for row in rows],
    }
    stands: dict[int, set[str]] = {}
    for column in COLUMNS:
        of_now = compress(enumerate(map(attrgetter(column.name), rows)), fresh[column.source])
        values = {index: value for index, value in of_now if value is not None}
        apart = spread(list(values.values()), column.limit)
        if apart is None:
            continue
        made.spreads[column.name] = apart
        for index, value in values.items() if apart.flagged else ():
            if _stands_out(value, apart.middle, column):
                stands.setdefault(index, set()).add(column.name)
    _flag(made, stands)


def _flag(made: JobFacts, stands: dict[int, set[str]]) -> None:
    """Set the flags of the ranks that stand out, including those with a lag, slowdown or silent log."""
    silent = _silent_from(made)
    every = _reports_every(made)
    for index, row in enumerate(made.rows):
        if row.lag is not None and row.lag > every:
            stands.setdefault(index, set()).add("lag")
        if row.throttle_pct is not None and not row.gpu_late and row.throttle_pct > THROTTLED_PCT:
            stands.setdefault(index, set()).add("throttle")
        if silent is not None and row.step is not None and row.wrote_at is not None and row.wrote_at < silent:
            stands.setdefault(index, set()).add("log")
    for index, names in stands.items():
        made.rows[index].flags = frozenset(names)


def _stands_out(value: float, middle: float, column: RankMetric) -> bool:
    limit = (column.limit or 0.0) * middle
    high, low = value > middle + limit, value < middle - limit
    return (high and column.bad != "low") or (low and column.bad != "high")


def _reports_every(made: JobFacts) -> int:
    """Return the number of steps between two logged ones.

    A rank this far behind has merely not logged its newest step yet.
    """
    steps = [] if made.speaker is None else [step.step for step in made.speaker.steps]
    return int(usual_gap(steps) or 1)


def _silent_from(made: JobFacts) -> float | None:
    """Return the time before which a log must last have grown to count as silent (monotonic).

    None: too few logs to compare.
    """
    wrote = [row.wrote_at for row in made.rows if row.wrote_at is not None and row.step is not None]
    if len(wrote) < 3:
        return None
    return median(wrote) - max(SILENT_S, SILENT_GAPS * (made.gap_s or 0.0))
