"""Estimates times for lines without a timestamp, in files that were not followed live.

Such a line is between the timestamps above and below it, and not later than the file's modification time or
the job's last line. A copied file has the modification time of the copy.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from gpuwatch.agent.logs.lines.splitter import MAX_LINE, unmasked_text
from gpuwatch.agent.logs.lines.timestamps import may_have_time, time_of
from gpuwatch.wire import TimeBound

MAX_LINES_TRIED = 400
COPIED_S = 60.0
"""Seconds after the job's last line; a file modified later was copied, or is of another job."""
TALKATIVE_S = 3600.0
"""Seconds; a line is dated by the line above if the job went on for at most this long.

Failures are mostly printed right after another line, and the other ranks then wait 30 minutes at most by
default.
"""

_OF_EARLIER = re.compile(
    rb"^(?:Job .{1,200} was (?:submitted|executed)|Started at )"
    rb"|\b(?:submi(?:t|tted|ssion)|start)[ _]?(?:time|date)?[=:]",
    re.IGNORECASE,
)
"""Matches lines of a report that stand below what happened later."""
_ENDS = re.compile(rb"[\r\n]+")
_MAY_HAVE_TIME = re.compile(rb"\d\d[:.]\d\d[:.]\d\d|1[4-9]\d{8}|\{\"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xff]")
"""What every time that `time_of` reads has, or a byte that is no plain text, as of other scripts' digits."""


class Times(Struct, frozen=True):
    """The timestamps nearest to a line, above and below it (unix seconds)."""

    above: float | None = None
    below: float | None = None


class TimesAround:
    """Finds the nearest timestamps for several lines of one stretch of a file; each line is parsed once."""

    def __init__(self, data: bytes, mtime: float) -> None:
        self._data = data
        self._mtime = mtime
        self._is_dated = _MAY_HAVE_TIME.search(data) is not None
        self._starts = [0, *(end.end() for end in _ENDS.finditer(data))] if self._is_dated else [0]
        self._known: dict[int, float | None] = {}

    def of(self, at: int) -> Times:
        """Return the nearest timestamps above and below the line at byte `at`.

        The line's own counts as above.
        """
        if not self._is_dated:
            return Times()
        line = bisect_right(self._starts, at) - 1
        begun = self._data[self._starts[line] : at]
        above = time_of(unmasked_text(begun[:MAX_LINE]), self._mtime) if begun else None
        if above is None:
            above = self._first(range(line - 1, max(-1, line - 1 - MAX_LINES_TRIED), -1))
        return Times(above, self._first(range(line + 1, min(len(self._starts), line + 1 + MAX_LINES_TRIED))))

    def _first(self, lines: range) -> float | None:
        return next((at for line in lines if (at := self._time(line)) is not None), None)

    def _time(self, line: int) -> float | None:
        if line not in self._known:
            end = self._starts[line + 1] if line + 1 < len(self._starts) else len(self._data)
            text = self._data[self._starts[line] : end][:MAX_LINE]
            dated = may_have_time(text) and _OF_EARLIER.search(text) is None
            self._known[line] = time_of(unmasked_text(text), self._mtime) if dated else None
        return self._known[line]


def stretches(offsets: Sequence[int], around: int, most: int) -> Iterator[list[int]]:
    """Yield groups of ascending offsets whose surroundings (`around` bytes on both sides) overlap.

    No group spans more than `most` bytes, unless it has a single offset.
    """
    together: list[int] = []
    for offset in offsets:
        if together and (offset - together[-1] > 2 * around or offset - together[0] > most):
            yield together
            together = []
        together.append(offset)
    if together:
        yield together


def likely_time(times: Times, mtime: float, job_end: float | None) -> float:
    """Return the best estimate for the time of a line without a timestamp (unix seconds).

    It is the timestamp below the line; without one the file's modification time, unless the file was copied
    (`COPIED_S`); then the timestamp above, if the job ended at most `TALKATIVE_S` later, else the job's end.

    Args:
        times: The timestamps of the file above and below the line.
        mtime: The file's modification time.
        job_end: The last timestamp in the job's lines; None: unknown.
    """
    if times.below is not None:
        return times.below
    if job_end is None or mtime <= job_end + COPIED_S:
        return mtime
    if times.above is not None and job_end - times.above <= TALKATIVE_S:
        return times.above
    return job_end


def needs_time(row: Mapping[str, Any], arrived: float) -> bool:
    """Return True if neither a finding's line nor one shortly below it has a timestamp."""
    return not row["timed"] and ("bound" in row or row["at"] == arrived)


def bound_of(times: Times) -> TimeBound:
    """Return how the time of a line without a timestamp is bounded: "before", "after" or "undated".

    "before" the timestamp below the line, else "after" the one above it, else "undated".

    Only timestamps of the same writer are bounds: other files may have ended earlier, and a file's
    modification time may be that of a copy.
    """
    if times.below is not None:
        return "before"
    return "undated" if times.above is None else "after"
