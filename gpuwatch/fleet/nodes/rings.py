"""Time series of a few columns in bounded memory: 15 minutes per second, 24 hours in 2-minute buckets.

Everything is indexed by time, never by count, so a gap in the samples stays a gap. Values are float16 with an
error of at most 0.05 %, up to 65,000.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

FINE_S = 900
BUCKET_S = 120
ALLOCATED_FIRST_S = BUCKET_S
"""Seconds that are allocated first, then twice as many, up to `FINE_S`; the open bucket is among them."""
DAY_S = 86_400
BUCKETS = DAY_S // BUCKET_S
CHUNK = 60
"""Buckets that are allocated together: two hours."""
HOLD_INTERVALS = 1.5
"""A sample covers the time since the previous one, unless that is longer than this many intervals."""
HALF_MAX = 65_000.0
Series: TypeAlias = "NDArray[np.float32]"
How: TypeAlias = Literal["mean", "max"]


class Rings:
    """Time series of the columns of one GPU or host: seconds, then two-minute buckets.

    Memory is allocated with the first sample, for more seconds as they pass, and for two hours of buckets
    with the first full one.
    """

    __slots__ = (
        "_at", "_buckets", "_columns", "_fine", "_first", "_hold", "_row", "_second", "_size", "_view",
    )  # fmt: skip

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._row = struct.Struct(f"={columns}e")
        self._size = 0
        """Seconds that are allocated; a second has the row `second % size`."""
        self._fine = bytearray()
        self._view: NDArray[np.float16] = np.empty((0, columns), np.float16)
        self._buckets: list[NDArray[np.float16] | None] = [None] * (BUCKETS // CHUNK)
        """For each chunk of buckets their means and maxima, shape (CHUNK, 2, columns)."""
        self._at = -math.inf
        self._hold = 0.0
        self._first = self._second = 0
        """The oldest and the newest second with a row."""

    def add(self, at: float, interval_s: float, row: Sequence[float]) -> None:
        """Add one row (NaN: unknown). The last row within a second wins; an older one is ignored."""
        second = int(at // 1)
        if not self._fine:
            self._first = self._second = second
            self._reach(second, second)
        elif second < self._second:
            return
        self._hold = HOLD_INTERVALS * interval_s
        if second > self._second:
            self._forward(second, bridge=at - self._at <= self._hold, row=row)
        self._at = at
        self._write(second, row)

    def add_before(self, at: float, row: Sequence[float]) -> None:
        """Store a row as the bucket of `at`, if that is empty, within a day and older than the newest one."""
        bucket, newest = int(at // BUCKET_S), self._second // BUCKET_S
        if not self._fine or not newest - BUCKETS < bucket < newest:
            return
        cell = self._bucket(bucket)
        if np.isnan(cell).all():
            cell[:] = np.clip(np.asarray(row), -HALF_MAX, HALF_MAX)

    def follow(self, later: Rings) -> None:
        """Copy the seconds of rings that began later into these rings, overwriting seconds that both have."""
        if not later._fine:
            return
        first = later._second - later._size + 1
        rows = later._rows(first, later._second + 1)
        interval_s = max(1.0, later._hold / HOLD_INTERVALS)
        for index in np.flatnonzero(~np.isnan(rows).all(axis=1)).tolist():
            second, row = first + index, rows[index].tolist()
            if self._fine and self._second - FINE_S < second <= self._second:
                self._reach(second, self._second)
                self._write(second, row)
            else:
                self.add(float(second), interval_s, row)
        self._at, self._hold = max(self._at, later._at), later._hold

    def series(
        self, column: int, seconds: float, points: int, now: float | None = None, how: How = "mean"
    ) -> Series:
        """Return the last `seconds` of a column in `points` equal parts, oldest first; NaN where unknown.

        The last part contains the newest sample, or `now` if that is earlier or more than `HOLD_INTERVALS`
        sampling intervals later. The edges of the parts are multiples of their length, so that a drawn line
        moves by whole parts and does not flicker.
        """
        result: Series = np.full(points, np.nan, np.float32)
        if not self._fine or points < 1 or seconds <= 0:
            return result
        end = self._second + 1
        if now is not None and now - self._at > self._hold:
            end = max(end, int(now // 1) + 1)
        elif now is not None:
            end = min(end, int(now // 1) + 1)  # a frozen view looks back
        step = 1 if seconds <= FINE_S else BUCKET_S
        width = seconds / points
        last_edge = math.ceil(end / width) * width
        first_edge = last_edge - points * width
        begin = math.floor(first_edge / step)
        values = (self._seconds if step == 1 else self._coarse)(column, begin, math.ceil(end / step), how)
        times = (np.arange(begin, begin + len(values)) + 0.5) * step
        if width <= step:
            middles = (first_edge + (np.arange(points) + 0.5) * width) // step
            return _pick(values, (middles - begin).astype(np.int64))
        return _binned(values, np.floor((times - first_edge) / width).astype(np.int64), points, how)

    def means(self, seconds: int, now: float) -> list[float]:
        """Return the mean of every column over the last `seconds` (at most `FINE_S`) before `now`.

        NaN for a column of which less than half of those seconds is known.
        """
        if not self._fine:
            return [math.nan] * self._columns
        end = self._second if now - self._at <= self._hold else int(now // 1)
        wanted = np.arange(max(end - seconds, self._second - self._size) + 1, self._second + 1)
        rows = self._view[wanted % self._size].astype(np.float32)
        known = rows == rows  # noqa: PLR0124 - NaN is not itself
        count = known.sum(axis=0)
        total = np.where(known, rows, 0.0).sum(axis=0)
        means: list[float] = np.where(2 * count >= seconds, total / np.maximum(count, 1), np.nan).tolist()
        return means

    def mean(self, column: int, seconds: int, now: float) -> float:
        """Return the mean of one column over the last `seconds`, as `means` does, at a tenth of the cost."""
        if not self._fine:
            return math.nan
        end = self._second if now - self._at <= self._hold else int(now // 1)
        first = max(end - seconds, self._second - self._size) + 1
        if first > self._second:
            return math.nan
        begin, behind = first % self._size, self._second % self._size + 1
        values = self._view[:, column]
        part = values[begin:behind] if begin < behind else np.concatenate((values[begin:], values[:behind]))
        known = part[part == part].astype(np.float32)  # noqa: PLR0124 - NaN is not itself
        return float(known.sum()) / len(known) if 2 * len(known) >= seconds else math.nan

    def nbytes(self) -> int:
        """Return the bytes that the rings take now."""
        return len(self._fine) + sum(chunk.nbytes for chunk in self._buckets if chunk is not None)

    def _write(self, second: int, row: Sequence[float]) -> None:
        offset = second % self._size * self._row.size
        try:
            self._row.pack_into(self._fine, offset, *row)
        except (OverflowError, struct.error):  # of a float, of an int
            clipped = [max(-HALF_MAX, min(HALF_MAX, value)) for value in row]
            self._row.pack_into(self._fine, offset, *clipped)

    def _reach(self, first: int, last: int) -> None:
        """Allocate memory for the seconds from `first` to `last`, at most `FINE_S`, and keep the rows."""
        self._first = min(self._first, first)
        needed = min(FINE_S, last - self._first + 1)
        if needed <= self._size:
            return
        size = max(ALLOCATED_FIRST_S, self._size)
        while size < needed:
            size = min(2 * size, FINE_S)
        kept = np.arange(self._second - self._size + 1, self._second + 1)
        rows = self._view[kept % self._size] if self._size else self._view
        self._size = size
        self._fine = bytearray(self._row.pack(*[math.nan] * self._columns) * size)
        self._view = np.frombuffer(self._fine, np.float16).reshape(size, self._columns)
        self._view[kept % size] = rows

    def _forward(self, second: int, *, bridge: bool, row: Sequence[float]) -> None:
        """Advance to a new second: close the buckets before it, and fill the skipped seconds.

        They get `row` if `bridge`, else NaN.
        """
        if second // BUCKET_S > self._second // BUCKET_S:
            self._close_buckets(second // BUCKET_S)
        if self._size < FINE_S:
            self._reach(self._first, second)
        skipped = range(max(self._second + 1, second - self._size), second)
        for each in skipped:
            self._write(each, row if bridge else [math.nan] * self._columns)
        self._second = second

    def _close_buckets(self, current: int) -> None:
        newest = self._second // BUCKET_S
        rows = self._rows(newest * BUCKET_S, self._second + 1)
        self._bucket(newest)[:] = _mean_and_max(rows)
        for skipped in range(max(newest + 1, current - BUCKETS), current):
            chunk = self._buckets[skipped % BUCKETS // CHUNK]
            if chunk is not None:
                chunk[skipped % CHUNK] = np.nan

    def _bucket(self, number: int) -> NDArray[np.float16]:
        """Return the array of a bucket's means and maxima (2, columns), into which they are written."""
        place = number % BUCKETS // CHUNK
        chunk = self._buckets[place]
        if chunk is None:
            chunk = self._buckets[place] = np.full((CHUNK, 2, self._columns), np.nan, np.float16)
        cell: NDArray[np.float16] = chunk[number % CHUNK]
        return cell

    def _rows(self, first: int, end: int) -> Series:
        rows: Series = self._view[np.arange(first, end) % self._size].astype(np.float32)
        return rows

    def _seconds(self, column: int, begin: int, end: int, _how: How) -> Series:
        """Return one value per second of a column for [begin, end); NaN outside of the stored range."""
        wanted = np.arange(begin, end)
        values: Series = self._view[wanted % self._size, column].astype(np.float32)
        values[(wanted > self._second) | (wanted <= self._second - self._size)] = np.nan
        return values

    def _coarse(self, column: int, begin: int, end: int, how: How) -> Series:
        """Return one value per two-minute bucket for [begin, end).

        The bucket that is still open is computed from its seconds so far.
        """
        wanted = np.arange(begin, end)
        newest = self._second // BUCKET_S
        values: Series = np.full(len(wanted), np.nan, np.float32)
        which = 0 if how == "mean" else 1
        held = (wanted < newest) & (wanted > newest - BUCKETS)
        places = wanted % BUCKETS // CHUNK
        for place, chunk in enumerate(self._buckets):
            if chunk is not None:
                inside = held & (places == place)
                values[inside] = chunk[wanted[inside] % CHUNK, which, column]
        if begin <= newest < end:
            rows = self._rows(newest * BUCKET_S, self._second + 1)
            values[newest - begin] = _mean_and_max(rows)[which, column]
        return values


def _mean_and_max(rows: Series) -> Series:
    """Return the mean and maximum of each column over its known values, shape (2, columns).

    NaN if none is.
    """
    known = ~np.isnan(rows)
    count = known.sum(axis=0)
    total = np.where(known, rows, 0.0).sum(axis=0)
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    top = np.where(count > 0, np.where(known, rows, -np.inf).max(axis=0, initial=-np.inf), np.nan)
    return np.stack([mean, top]).astype(np.float32)


def _pick(values: Series, indices: NDArray[np.int64]) -> Series:
    inside = (indices >= 0) & (indices < len(values))
    result: Series = np.full(len(indices), np.nan, np.float32)
    result[inside] = values[indices[inside]]
    return result


def _binned(values: Series, bins: NDArray[np.int64], points: int, how: How) -> Series:
    """Return the mean or the maximum of the known values of each bin; NaN for an empty bin."""
    use = ~np.isnan(values) & (bins >= 0) & (bins < points)
    kept, bins = values[use], bins[use]
    count = np.bincount(bins, minlength=points)
    if how == "max":
        top: Series = np.full(points, -np.inf, np.float32)
        np.maximum.at(top, bins, kept)
        return np.where(count > 0, top, np.nan).astype(np.float32)
    total = np.bincount(bins, weights=kept, minlength=points)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)
