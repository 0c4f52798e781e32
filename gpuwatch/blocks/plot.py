"""A plot as data: lines of one quantity over steps or time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

LEAST_SPAN = 1e-300
"""Smaller ranges are drawn as one value: a share of them cannot be computed."""


class PlotSeries(Struct, frozen=True):
    """A line of a plot; its points are sorted by x."""

    label: str
    points: tuple[tuple[float, float], ...]


class Plot(Struct, frozen=True):
    """A plot of one quantity."""

    name: str
    title: str
    x_label: str
    """Label of the x axis: `step`, or `s` since the start of each session."""
    series: tuple[PlotSeries, ...]
    omitted: int = 0
    """Number of lines that are not drawn."""

    @property
    def x_range(self) -> tuple[float, float]:
        """Return the first and last x of all lines; if they are equal, a range around them."""
        return _range([x for one in self.series for x, _ in one.points])

    @property
    def y_range(self) -> tuple[float, float]:
        """Return the lowest and highest value of all lines; if they are equal, a range around them."""
        return _range([y for one in self.series for _, y in one.points])


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return about `most` round numbers from `low` to `high`; only `low` if `high` is not above it."""
    if not high > low:
        return [low]
    raw = (high - low) / most
    if not 0 < raw < math.inf:
        return [low, high]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def number_text(value: float) -> str:
    """Return a number as text for a tick: `0.0015`, `12k`."""
    if abs(value) >= 10_000:
        for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= unit:
                return f"{value / unit:.4g}{name}"
    return f"{value:.4g}"


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = max(abs(low) / 10, LEAST_SPAN) if low else 0.1
    return (low, high) if high - low > LEAST_SPAN else (low - margin, high + margin)
