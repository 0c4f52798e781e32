"""Determines in which files dates of two small numbers, `09/11/2026`, have the day first. Pure.

A number above 12 is a day. A file without one has the order of the other files; where these show none, the
order by which its lines are of the days of the other stamps, or of the file's modification time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import NamedTuple

from gpuwatch.agent.logs.lines.timestamps import TIME_CHARS, time_of

NEAR_DAYS = 3
"""Days between stamps of one job."""
MAX_DATED_LINES = 200
"""Lines with another stamp that are read of each file."""
_NUMBER = rb"(0[1-9]|[12]\d|3[01])"
_SLASHED = re.compile(rb"(?<![\d/-])" + _NUMBER + rb"[/-]" + _NUMBER + rb"[/-](20\d\d) (\d\d):\d\d:\d\d")
_SLASHED_END = re.compile(rb"[/-]20\d\d \d\d:\d\d:\d\d")
_DATED = re.compile(
    rb"20\d\d[-/]\d\d|[A-Z][a-z]{2} [ \d]?\d \d\d:|\d\d/[A-Z][a-z]{2}/20\d\d|\d\d\.\d\d\.20\d\d"
)


class _Stamp(NamedTuple):
    first: int
    second: int
    year: int
    hour: int


def files_with_day_first(
    samples: Sequence[tuple[str, Sequence[bytes]]], modified: Mapping[str, float]
) -> frozenset[str]:
    """Return the files whose dates of two small numbers have the day first.

    Args:
        samples: File and sample lines of each file.
        modified: File -> its modification time (unix seconds).
    """
    stamps = {file: found for file, lines in samples if (found := list(_stamps(lines)))}
    if not stamps:
        return frozenset()
    stated = {file: _stated(found) for file, found in stamps.items()}
    known = set(stated.values()) - {None}
    common = known.pop() if len(known) == 1 else None
    days: list[date] | None = None
    chosen: set[str] = set()
    for file, found in stamps.items():
        answer = stated[file] if stated[file] is not None else common
        if answer is None:
            days = list(_days(samples)) if days is None else days
            answer = _nearer(found, days)
        if answer is None and file in modified:
            answer = _nearer(found, [date.fromtimestamp(modified[file])])
        if answer:
            chosen.add(file)
    return frozenset(chosen)


def _stamps(lines: Sequence[bytes]) -> Iterator[_Stamp]:
    """Yield the dates with slashes or hyphens whose order is not known."""
    if _SLASHED_END.search(b"\n".join(lines)) is None:
        return
    for raw in lines:
        found = _SLASHED.search(raw, 0, TIME_CHARS)
        if found is not None:
            first, second, year, hour = map(int, found.groups())
            yield _Stamp(first, second, year, hour)


def _stated(stamps: Sequence[_Stamp]) -> bool | None:
    """Return whether the day comes first, as these dates show: by a number above 12, or by a midnight.

    None: they do not show it, or they contradict each other.
    """
    first = any(stamp.first > 12 for stamp in stamps)
    second = any(stamp.second > 12 for stamp in stamps)
    if first or second:
        return None if first and second else first
    for before, after in pairwise(stamps):
        if after.hour < before.hour and after.year == before.year:
            moved = (after.first - before.first, after.second - before.second)
            if moved in ((1, 0), (0, 1)):
                return moved == (1, 0)
    return None


def _days(samples: Sequence[tuple[str, Sequence[bytes]]]) -> Iterator[date]:
    """Yield the dates of some lines whose stamps have year, month and day in a known order."""
    for _, lines in samples:
        dated = [raw for raw in lines if _DATED.search(raw, 0, TIME_CHARS) and not _SLASHED.search(raw)]
        for raw in dated[:: max(1, len(dated) // MAX_DATED_LINES)]:
            at = time_of(raw[:TIME_CHARS].decode("utf-8", "replace"), 0.0)
            if at is not None and at > 0:
                yield date.fromtimestamp(at)


def _nearer(stamps: Sequence[_Stamp], days: Iterable[date]) -> bool | None:
    """Return whether the last date is near these days with the day first only; None: with both or neither."""
    last = next((each for each in reversed(stamps) if max(each.first, each.second) <= 12), None)
    if last is None or last.first == last.second:
        return None
    readings = (date(last.year, last.second, last.first), date(last.year, last.first, last.second))
    first, second = (any(abs((day - each).days) <= NEAR_DAYS for day in days) for each in readings)
    return None if first == second else first
