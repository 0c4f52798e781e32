"""Time intervals as two arrays, starts and ends, in any unit."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Floats: TypeAlias = npt.NDArray[np.float64]


class Intervals(Struct, frozen=True):
    """Sorted intervals without overlaps, as from `merged`."""

    starts: Floats
    ends: Floats

    @property
    def total(self) -> float:
        """The total length, in the unit of the intervals."""
        return float(np.sum(self.ends - self.starts))

    def covered(self, starts: Floats, ends: Floats) -> Floats:
        """Return, for each given interval, the length of its intersection with these intervals."""
        return self._before(ends) - self._before(starts)

    def _before(self, moments: Floats) -> Floats:
        """Return the length of these intervals before each moment."""
        if not len(self.starts):
            return np.zeros(len(moments))
        lengths = self.ends - self.starts
        sums = np.concatenate(([0.0], np.cumsum(lengths)))
        index = np.searchsorted(self.starts, moments, side="right")
        inside = np.clip(
            moments - self.starts[np.maximum(index - 1, 0)], 0.0, lengths[np.maximum(index - 1, 0)]
        )
        return sums[np.maximum(index - 1, 0)] + np.where(index > 0, inside, 0.0)


def sums_by(groups: npt.NDArray[np.integer], values: Floats, count: int) -> Floats:
    """Return the sum of the values of each group (0 to `count` - 1)."""
    return np.asarray(np.bincount(groups, weights=values, minlength=count), dtype=np.float64)


def merged(starts: Floats, ends: Floats) -> Intervals:
    """Return the union of unsorted, possibly overlapping intervals."""
    if not len(starts):
        return Intervals(np.zeros(0), np.zeros(0))
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)
    first = np.concatenate(([True], starts[1:] > reached[:-1]))
    last = np.concatenate((first[1:], [True]))
    return Intervals(starts[first], reached[last])


def union(*parts: Intervals) -> Intervals:
    """Return the union of several sets of intervals."""
    return merged(
        np.concatenate([part.starts for part in parts]), np.concatenate([part.ends for part in parts])
    )


def without(these: Intervals, others: Intervals) -> Intervals:
    """Return the parts of the intervals `these` that are outside of `others`."""
    if not len(others.starts) or not len(these.starts):
        return these
    edges = np.unique(np.concatenate((these.starts, these.ends, others.starts, others.ends)))
    middles = (edges[1:] + edges[:-1]) / 2
    kept = _contains(these, middles) & ~_contains(others, middles)
    return merged(edges[:-1][kept], edges[1:][kept])


def _contains(intervals: Intervals, moments: Floats) -> npt.NDArray[np.bool_]:
    index = np.searchsorted(intervals.starts, moments, side="right") - 1
    found: npt.NDArray[np.bool_] = (index >= 0) & (moments < intervals.ends[np.maximum(index, 0)])
    return found
