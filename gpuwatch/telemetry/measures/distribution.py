"""Statistics of a stream of numbers in bounded memory, and of a short list."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence

RESERVOIR_SIZE = 1024
"""Size of the sample for the median and the percentiles, which are exact up to this many numbers."""


class Distribution:
    """Count, total, mean, standard deviation, extremes and percentiles of all numbers added; thread-safe."""

    __slots__ = (
        "_lock", "_mean", "_sample", "_size", "_squares", "_state", "count", "largest", "smallest", "total",
    )  # fmt: skip

    def __init__(self, size: int = RESERVOIR_SIZE) -> None:
        self.count = 0
        self.total = 0.0
        self.smallest = math.inf
        self.largest = -math.inf
        self._mean = 0.0
        self._squares = 0.0
        self._size = size
        self._sample: list[float] = []
        self._state = 1
        self._lock = threading.Lock()

    def add(self, value: float) -> None:
        """Add a number."""
        with self._lock:
            self.count += 1
            self.total += value
            change = value - self._mean
            self._mean += change / self.count
            self._squares += change * (value - self._mean)
            self.smallest = min(self.smallest, value)
            self.largest = max(self.largest, value)
            if len(self._sample) < self._size:
                self._sample.append(value)
            else:
                # a generator of its own (Lehmer's): the seed of the training stays as it is
                self._state = self._state * 48271 % 0x7FFFFFFF
                place = self._state % self.count
                if place < self._size:
                    self._sample[place] = value

    @property
    def mean(self) -> float | None:
        """The mean; None without numbers."""
        return self._mean if self.count else None

    @property
    def std_dev(self) -> float | None:
        """The sample standard deviation (n - 1); 0 for one number, None without numbers."""
        if not self.count:
            return None
        return math.sqrt(max(self._squares, 0.0) / (self.count - 1)) if self.count > 1 else 0.0

    def percentile(self, share: float) -> float | None:
        """Return the number below which this fraction (0 to 1) lies, interpolated; None without numbers.

        It is estimated from a random sample if there are more numbers than the sample holds.
        """
        with self._lock:
            return percentile(sorted(self._sample), share)

    def statistics(self) -> dict[str, float]:
        """Return `count`, and with at least one number `mean`, `median`, `std_dev`, `min`, `max`."""
        found: dict[str, float] = {"count": self.count}
        mean, median, std_dev = self.mean, self.percentile(0.5), self.std_dev
        if mean is not None and median is not None and std_dev is not None:
            found.update(mean=mean, median=median, std_dev=std_dev, min=self.smallest, max=self.largest)
        return found


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return a percentile (`share`: 0 to 1) of sorted numbers, interpolated; None without numbers."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def statistics_over_ranks(values: Mapping[int, float]) -> dict[str, float]:
    """Return statistics of one number per rank; `min_index` and `max_index` are the ranks of the extremes.

    The lowest rank counts on a tie. Without numbers there is only `count`.
    """
    numbers = Distribution(len(values) or 1)
    for value in values.values():
        numbers.add(value)
    found = numbers.statistics()
    if values:
        found["min_index"] = min(values, key=lambda rank: (values[rank], rank))
        found["max_index"] = max(values, key=lambda rank: (values[rank], -rank))
    return found
