"""Reads tables of log lines as log services export them: CSV with columns of times and messages."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone

LOG_TABLE = "log-table"
"""The packing name of a file with a table of log lines."""
MAX_FIELD = 1 << 20
_KEY = re.compile(r"[@ _.-]|\[[^\]]{0,20}\]|\(.{0,20}\)")
MESSAGE_COLUMNS = (
    "message",
    "textpayload",
    "jsonpayloadmessage",
    "msg",
    "logmessage",
    "log",
    "line",
    "body",
    "content",
    "logentry",
    "renderedmessage",
    "rawdata",
    "event",
    "text",
    "exception",
    "traceback",
)
TIME_COLUMNS = (
    "timestamp",
    "time",
    "timegenerated",
    "ts",
    "t",
    "datetime",
    "date",
    "eventtime",
    "receivetimestamp",
    "ingestiontime",
)
LEVEL_COLUMNS = ("severity", "level", "loglevel", "levelname", "severitytext", "severitylevel")
HOST_COLUMNS = (
    "host",
    "hostname",
    "computer",
    "node",
    "nodename",
    "instance",
    "resourcelabelsnodename",
    "kubernetesnodename",
)
RANK_COLUMNS = ("rank", "globalrank", "worldrank", "rankid", "mpirank", "processindex", "process")
"""Names of columns with the rank, in lower case without signs; the first that a table has is read."""
OF_PEOPLE = frozenset(
    (
        "user",
        "username",
        "author",
        "sender",
        "from",
        "to",
        "channel",
        "role",
        "conversation",
        "label",
        "category",
    )
)
"""Names of columns in tables that are no logs: messages between people, or data sets."""
_LEVEL = re.compile(
    r"(?i)(?:debug|info|notice|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal|alert|emerg(?:ency)?|trace)$"
)
_TROUBLE = re.compile(rb"\b[A-Z]\w{0,60}(?:Error|Exception): |[,\t\"](?:ERROR|CRITICAL|FATAL)[,\t\": ]")
"""Matches an exception or a grave level in a row, which shows that the last column holds messages."""
_RANK = re.compile(r"\d{1,6}")
_HOST = re.compile(r"[A-Za-z][\w.-]{1,80}")


def is_log_table(head: bytes) -> bool:
    """Return True if a file begins with the heading of a table of log lines and a row of one.

    The row must have a time, or without a column of times a rank or a level.
    """
    lines = head[:8192].decode("utf-8", "replace").lstrip("\ufeff").splitlines()[:3]
    if len(lines) < 2 or len(lines[0]) > 2000:
        return False
    separator = _separator(lines[0])
    heading = _columns(next(csv.reader([lines[0]], delimiter=separator), []))
    row = next(csv.reader([lines[1]], delimiter=separator), [])
    time, message = _first(TIME_COLUMNS, heading), _message_of(heading)
    if message is None or max(time or 0, message) >= len(row) or not OF_PEOPLE.isdisjoint(heading):
        return False
    listed = _first(MESSAGE_COLUMNS, heading) is not None
    if time is None:
        return listed and _is_of_a_rank(row, heading)
    return (listed or _TROUBLE.search(head) is not None) and _stamp(row[time]) != ""


def _separator(heading: str) -> str:
    """Return the sign between the columns: the one that the heading has most of."""
    return max("\t,;|", key=heading.count)


def _is_of_a_rank(row: list[str], heading: Mapping[str, int]) -> bool:
    """Return True if a row has the number of a rank, or a level."""
    rank, level = _first(RANK_COLUMNS, heading), _first(LEVEL_COLUMNS, heading)
    by_rank = rank is not None and rank < len(row) and _RANK.fullmatch(row[rank].strip()) is not None
    return by_rank or (level is not None and level < len(row) and _LEVEL.match(row[level]) is not None)


def table_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the rows as log lines: time, rank, host, level, message; a message may have several lines.

    The heading becomes a blank line; a row that is too short is joined as it is.
    """
    given = iter(lines)
    first = next(given, "").lstrip("\ufeff")
    separator = _separator(first)
    names = next(csv.reader([first], delimiter=separator), [])
    heading = _columns(names)
    time, message = _first(TIME_COLUMNS, heading), _message_of(heading)
    level, host = _first(LEVEL_COLUMNS, heading), _first(HOST_COLUMNS, heading)
    rank = _first(RANK_COLUMNS, heading)
    yield "\n"
    if message is None:
        yield from given
        return
    for row, raw in _rows(given, separator):
        if message == len(names) - 1:
            row[message:] = [separator.join(row[message:])] if len(row) > message else []
        others = row[:message] + row[message + 1 :]
        is_row = len(row) == len(names) and not any("\n" in cell for cell in others)
        if not is_row or not (_is_of_a_rank(row, heading) if time is None else _stamp(row[time])):
            yield raw
            continue
        words = [] if time is None else [_stamp(row[time])]
        if rank is not None and rank < len(row) and _RANK.fullmatch(row[rank].strip()):
            words.append(f"[rank{int(row[rank])}]:")
        if host is not None and host < len(row) and _HOST.fullmatch(row[host]):
            words.append(f"{row[host]} [stderr]")
        if level is not None and level < len(row) and _LEVEL.match(row[level].strip()):
            words.append(f"{row[level].strip().upper()}:")
        yield " ".join([*(word for word in words if word), row[message].rstrip("\r\n")]) + "\n"


class _Lines:
    """The lines of a table for a reader of CSV, and those that it has taken for the current row."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._taken: list[str] = []
        self._size = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if self._size > MAX_FIELD:
            raise csv.Error  # quotes that close and open again join lines without an end
        line = next(self._lines)
        self._taken.append(line)
        self._size += len(line)
        return line.replace("\0", "")

    def take(self) -> str:
        """Return the lines of the row that was read last."""
        taken, self._taken, self._size = "".join(self._taken), [], 0
        return taken


def _rows(lines: Iterator[str], separator: str) -> Iterator[tuple[list[str], str]]:
    """Yield the rows of a table, each with its lines.

    One that cannot be read, such as a quote without an end, is empty.
    """
    csv.field_size_limit(MAX_FIELD)
    source = _Lines(lines)
    reader = csv.reader(source, delimiter=separator)
    while True:
        try:
            row = next(reader, None)
        except csv.Error:
            row = []
        raw = source.take()
        if row is not None or raw:
            yield row or [], raw
        if row is None:
            return


def _columns(row: list[str]) -> dict[str, int]:
    return {_KEY.sub("", name).lower(): number for number, name in reversed(list(enumerate(row)))}


def _first(names: Iterable[str], heading: Mapping[str, int]) -> int | None:
    return next((heading[name] for name in names if name in heading), None)


def _message_of(heading: Mapping[str, int]) -> int | None:
    """Return the index of the column with the messages: a known name's, else the last; None: no column."""
    return (
        _first(MESSAGE_COLUMNS, heading)
        if heading.keys() & {*MESSAGE_COLUMNS}
        else max(heading.values(), default=None)
    )


def _stamp(text: str) -> str:
    """Return a time in ISO format, also for epoch seconds, milli-, micro- or nanoseconds; empty: no time."""
    text = text.strip().strip('"')
    if re.fullmatch(r"\d{10}(?:\.\d{1,9})?|\d{13}|\d{16}|\d{19}", text):
        whole = text.partition(".")[0]
        seconds = int(whole[:10])
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d", text):
        return text.replace(" ", "T", 1).replace(" ", "")
    return ""
