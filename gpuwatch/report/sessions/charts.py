"""Charts of sessions as data: metrics over steps or time, a line per writer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuwatch.blocks.plot import Plot, PlotSeries
from gpuwatch.runs.sessions.model.session import CURVE_NAMES, CurvePoint, SessionCurve, TrainingSession

TITLES = {
    "loss": "Loss",
    "learning_rate": "Learning rate",
    "grad_norm": "Gradient norm",
    "steps_per_s": "Throughput (steps/s)",
    "samples_per_s": "Throughput (samples/s)",
    "tokens_per_s": "Throughput (tokens/s)",
    "gpu_utilization_pct": "GPU utilization (%)",
    "gpu_memory_pct": "GPU memory (%)",
    "communication_s": "Communication time (s)",
    "eval_loss": "Evaluation loss",
}
MAX_SERIES = 16
"""Maximum number of lines per chart; of more, those with the lowest and highest means are drawn."""
MAX_BUCKETS = 300
"""Number of buckets of a long line; the lowest and highest point of each are drawn."""


PER_WRITER = ("gpu_utilization_pct", "gpu_memory_pct", "communication_s")
"""Metrics that each GPU or rank has separately."""
OF_JOB = tuple(name for name in CURVE_NAMES if name not in PER_WRITER)


def charts_of(sessions: Sequence[TrainingSession], names: Sequence[str] = CURVE_NAMES) -> list[Plot]:
    """Return a chart for each of these metrics that a session has, with at most MAX_SERIES lines.

    The x axis is the step if every point has one, else the seconds since the start.
    """
    found = []
    for name in names:
        lines = [(session, curve) for session in sessions for curve in session.curves.named(name)]
        by_step = bool(lines) and all(point.step is not None for _, curve in lines for point in curve.points)
        series = [_series(session, curve, by_step, len(sessions) > 1) for session, curve in lines]
        drawn = [one for one in series if one.points]
        if drawn:
            kept = extremes(drawn)
            label = "step" if by_step else "s"
            found.append(Plot(name, TITLES[name], label, tuple(kept), len(drawn) - len(kept)))
    return found


def _series(session: TrainingSession, curve: SessionCurve, by_step: bool, named: bool) -> PlotSeries:
    parts = ([session.name] if named else []) + ([curve.writer] if curve.writer else [])
    start = session.summary.start
    if start is None:
        start = next((point.time for point in curve.points if point.time is not None), 0.0)
    places = [(_place(point, by_step, start), point.value) for point in curve.points]
    points = [(x, value) for x, value in places if x is not None]
    return PlotSeries(", ".join(parts) or session.name, tuple(thinned(sorted(points))))


def _place(point: CurvePoint, by_step: bool, start: float) -> float | None:
    if by_step:
        return point.step
    return None if point.time is None else point.time - start


def extremes(series: Sequence[PlotSeries]) -> list[PlotSeries]:
    """Return at most `MAX_SERIES` lines, in order: those with the lowest and highest means."""
    if len(series) <= MAX_SERIES:
        return list(series)

    def mean(one: PlotSeries) -> float:
        return math.fsum(y for _, y in one.points) / len(one.points)

    by_mean = sorted(series, key=mean)
    half = MAX_SERIES // 2
    kept = {id(one) for one in (*by_mean[:half], *by_mean[-half:])}
    return [one for one in series if id(one) in kept]


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points; of many, the lowest and the highest of each bucket, so that no peak is lost."""
    if len(points) <= 2 * MAX_BUCKETS:
        return list(points)
    found: list[tuple[float, float]] = []
    size = len(points) / MAX_BUCKETS
    for bucket in range(MAX_BUCKETS):
        part = points[int(bucket * size) : int((bucket + 1) * size)]
        if part:
            ends = {min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])}
            found += sorted(ends)
    return found
