"""Reads a session's logs with size limits; parses the two record formats."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from gpuwatch.number_text import limit_text
from gpuwatch.plain import plain
from gpuwatch.runs.files.files import reason
from gpuwatch.runs.files.opening import open_buffered

MAX_LOG_BYTES = 256 << 20
"""Most bytes of one log that are read: about 2.5 million steps."""
MAX_LINE_CHARS = 4096
CLOCK = re.compile(r"(?P<clock>\d\d:\d\d:\d\d)\s*\|\s*(?P<level>[A-Z]{4,8})\s*\|\s?(?P<text>.*)")
"""A record of the main log."""
DATED = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?\s{0,20}\|"
    r"\s{0,20}(?P<level>[A-Z]{4,8})\s{0,20}\|\s{0,20}(?P<process>[^|]{1,40}?)\s{0,20}\|\s?(?P<text>.*)"
)
"""Matches a record of the communication and performance logs."""
ID_TIME = re.compile(r"_(\d{8})_(\d{6})")
HALF_DAY_S = 43_200.0
DAY_S = 86_400.0


class LogRecord(Struct, frozen=True):
    """A record of a log; `time` in unix seconds, `process` as the record names it."""

    time: float | None
    level: str
    process: str
    text: str


def log_lines(path: Path, problems: list[str]) -> Iterator[str]:
    """Yield the sanitized lines of a log.

    A file that is unreadable, or longer than MAX_LOG_BYTES (the rest is left out), adds a line to `problems`.
    """
    try:
        with open_buffered(path) as file:
            size = file.seek(0, 2)
            file.seek(0)
            if size > MAX_LOG_BYTES:
                problems.append(f"{path.name}: only its first {limit_text(MAX_LOG_BYTES)} are read")
            left = MAX_LOG_BYTES
            while left > 0 and (line := file.readline(min(left, 1 << 20))):
                left -= len(line)
                yield plain(line[: 4 * MAX_LINE_CHARS].decode(errors="replace").rstrip("\r\n"))
    except OSError as error:
        problems.append(f"{path.name}: {reason(error)}")


def dated_records(path: Path, problems: list[str]) -> Iterator[LogRecord]:
    """Yield the records of a log whose lines begin with a date.

    An unreadable or too long file adds a line to `problems`.
    """
    for line in log_lines(path, problems):
        found = DATED.search(line)
        if found:
            time = local_time(f"{found['date']} {found['clock']}")
            yield LogRecord(time, found["level"], found["process"], found["text"].strip())


def local_time(text: str) -> float | None:
    """Return `2024-12-06 14:30:22` in this machine's time zone as unix seconds; None if it is no date."""
    try:
        return dt.datetime.strptime(text, "%Y-%m-%d %H:%M:%S").astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def time_of_id(session: str) -> float | None:
    """Return the start of a session from its id (unix seconds); None if the id has no time."""
    found = ID_TIME.search(session)
    if found is None:
        return None
    try:
        moment = dt.datetime.strptime("".join(found.groups()), "%Y%m%d%H%M%S")
        return moment.astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        return None


@dataclass
class DayClock:
    """Adds dates to times of day: one more than half a day before the latest time is of the next day."""

    last: float | None

    def at(self, clock: str) -> float | None:
        """Return `14:30:22` as unix seconds; None if it is no time, or no date is known.

        A time more than half a day before the last one is of the next day.
        """
        if self.last is None:
            return None
        day = dt.datetime.fromtimestamp(self.last).astimezone().strftime("%Y-%m-%d")
        time = local_time(f"{day} {clock}")
        if time is None:
            return None
        if time < self.last - HALF_DAY_S:
            time += DAY_S
        self.last = max(self.last, time)
        return time
