"""The text of a session's log within bounds, and the two forms of its records."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.plain import plain
from gpuwatch.runs.files.files import reason
from gpuwatch.runs.files.opening import open_buffered

MAX_LOG_BYTES = 256 << 20
"""Read of one log: some 2.5 million steps."""
MAX_LINE_CHARS = 4096
CLOCK = re.compile(r"(?P<clock>\d\d:\d\d:\d\d)\s*\|\s*(?P<level>[A-Z]{4,8})\s*\|\s?(?P<text>.*)")
"""A record of the main log."""
DATED = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d)(?:[.,]\d+)?\s*\|\s*(?P<level>[A-Z]{4,8})\s*\|"
    r"\s*(?P<process>[^|]{1,40}?)\s*\|\s?(?P<text>.*)"
)
"""A record of the logs of communication and performance."""
ID_TIME = re.compile(r"_(\d{8})_(\d{6})")
HALF_DAY_S = 43_200.0
DAY_S = 86_400.0


@dataclass(frozen=True)
class LogRecord:
    """One record; `time` in unix seconds, `process` as it names itself."""

    time: float | None
    level: str
    process: str
    text: str


def log_lines(path: Path, problems: list[str]) -> Iterator[str]:
    """The lines of a log, harmless ones; what is over the bound is left out and named in `problems`."""
    try:
        with open_buffered(path) as file:
            size = file.seek(0, 2)
            file.seek(0)
            if size > MAX_LOG_BYTES:
                problems.append(f"{path.name}: only its first {MAX_LOG_BYTES >> 20} MB are read")
            left = MAX_LOG_BYTES
            while left > 0 and (line := file.readline(min(left, 1 << 20))):
                left -= len(line)
                yield plain(line[: 4 * MAX_LINE_CHARS].decode(errors="replace").rstrip("\r\n"))
    except OSError as error:
        problems.append(f"{path.name}: {reason(error)}")


def dated_records(path: Path, problems: list[str]) -> Iterator[LogRecord]:
    """The records of a log whose lines begin with a date."""
    for line in log_lines(path, problems):
        found = DATED.search(line)
        if found:
            time = local_time(f"{found['date']} {found['clock']}")
            yield LogRecord(time, found["level"], found["process"], found["text"].strip())


def local_time(text: str) -> float | None:
    """Unix seconds of `2024-12-06 14:30:22` in the zone of this machine; None where it is no date."""
    try:
        return dt.datetime.strptime(text, "%Y-%m-%d %H:%M:%S").astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def time_of_id(session: str) -> float | None:
    """When a session began, by its id (unix seconds)."""
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
    """Dates times of the day: each is the first such one that is not before the last, from the start on."""

    last: float | None

    def at(self, clock: str) -> float | None:
        """Unix seconds of `14:30:22`."""
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
