"""When lines were written that carry no time of their own, in files that nobody watched growing.

Such a line is no older than the last time above it, and no younger than the next one below it, than the
file's own stamp and than the last line of the whole job. Where a file was copied its stamp is the copy's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuwatch.agent.logs.split import shown
from gpuwatch.agent.logs.stamps import time_of
from gpuwatch.wire import TimeBound

LOOK_LINES = 400
COPIED_S = 60.0
"""A file that was changed so long after the job's last line was copied, or somebody else wrote to it."""
TALKATIVE_S = 3600.0
"""A line is dated by the line above it when the job went on for no longer than this: failures are mostly
printed right after a line, and the other ranks then wait for 30 minutes at most, by default."""

_ENDS = re.compile(rb"[\r\n]+")


@dataclass(frozen=True, slots=True)
class Times:
    """Of the nearest lines that carry a time (unix seconds)."""

    above: float | None = None
    below: float | None = None


def times_around(data: bytes, at: int, mtime: float) -> Times:
    """Look in both directions from the line at byte `at` of `data`."""
    above = first_time(reversed_lines(data[:at]), mtime)
    below = first_time(_ENDS.split(data[at:])[1 : LOOK_LINES + 1], mtime)
    return Times(above, below)


def reversed_lines(data: bytes) -> list[bytes]:
    """The last lines, the last one first."""
    return _ENDS.split(data)[::-1][:LOOK_LINES]


def first_time(lines: list[bytes], mtime: float) -> float | None:
    """The first time in these lines."""
    for line in lines:
        at = time_of(shown(line), mtime)
        if at is not None:
            return at
    return None


def likely_time(times: Times, mtime: float, job_end: float | None) -> float:
    """When a line without time was written, as near as can be told (unix seconds)."""
    if times.below is not None:
        return times.below
    if job_end is None or mtime <= job_end + COPIED_S:
        return mtime
    if times.above is not None and job_end - times.above <= TALKATIVE_S:
        return times.above
    return job_end


def needs_time(row: Mapping[str, Any], arrived: float) -> bool:
    """Whether neither a finding's line nor one soon below it carries a time."""
    return not row["timed"] and ("bound" in row or row["at"] == arrived)


def bound_of(times: Times, job_end: float | None) -> TimeBound:
    """What bounds the time of a line that carries none.

    `job_end`: the last time that a line of the job carries; what file systems say is no bound.
    """
    if times.below is not None:
        return "before"
    if times.above is not None:
        return "after"
    return "undated" if job_end is None else "before"
