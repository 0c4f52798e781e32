"""Splits a file into the logs that were pasted into it, at headings that name a rank, node or file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import BinaryIO, NamedTuple

from msgspec.structs import replace

from gpuwatch.agent.logs.lines.splitter import line_text
from gpuwatch.agent.logs.lines.timestamps import time_of
from gpuwatch.agent.ranks.path_ranks import ranks_of_path
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.files.packing import section_packing
from gpuwatch.runs.placement.owners import may_be_host
from gpuwatch.runs.saved_outputs import bug_report
from gpuwatch.runs.saved_outputs.sections import BEGIN_BYTES

MAX_BYTES = 32 << 20
"""Largest file in bytes that is checked for pasted logs."""
MAX_SECTIONS = 512
MIN_LINES = 2
"""Median number of lines per section; shorter sections come from banners."""
NEAR_LINES = 40
"""Number of lines next to a section border that are searched for a time."""
PIECE_BYTES = 1 << 18
"""Bytes of a larger file that are searched for headings at a time."""
START_BYTES = 3
"""Bytes that `_START` matches."""
_START = re.compile(rb"\n(?:==|##|--|::|\*\*|>>|~~|\+\+)")
"""The beginning of a heading; each heading has one, except at the start of the file."""
_TAIL = re.compile(r"==> {0,4}(?P<file>[^\s<>][^<>]{0,200}?) {0,4}<==$")
"""Matches a heading that `tail` and `head` print for several files."""
_RULE_OF_MORE = re.compile(r":{8,40}$")
"""Matches a rule that `more` prints above and below a file name."""
_RULED = re.compile(
    r"(?:[=*~+]{2,80}|#{2,80}|-{3,80}|>{2,80}|\[)\s{0,4}(?P<title>[^\s=*~#>\-][^=*~#<>]{0,160}?)"
    r"\s{0,4}(?:[=*~+#<\-]{2,80}|\])?$"
)
_PREFACE = re.compile(
    r"(?:(?:begin(?:ning)?|start|tail|end|last lines|excerpt|contents?|output|logs?|log ?file|file|stdout"
    r"|stderr)(?: (?:of|from|for|on))?[: ]{1,3}){1,3}",
    re.IGNORECASE,
)
_PART = re.compile(
    r"(?:global[ _-]?)?rank[ _:=#-]{0,3}(?P<rank>\d{1,6})(?![\w.])"
    r"|(?:compute )?(?:node|host|hostname|machine|pod|worker)(?:[ :=]{1,3})"
    r"(?P<node>[A-Za-z][\w.-]{0,80}|\d{1,5})(?![\w/])"
    r"|(?P<file>(?:[\w.@+-]{0,80}/){0,12}[\w.@+-]{1,120}"
    r"\.(?:log|out|err|txt|stdout|stderr|o|e)(?:\.\d{1,3})?)(?![\w/])"
    r"|(?P<host>[A-Za-z][A-Za-z]{0,40}-?[A-Za-z0-9-]{0,40}\d(?:\.[A-Za-z][\w.-]{0,60})?)(?![\w/])",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"[\s/,;|@()&:-]{1,6}(?:on |at |of )?|$")
_REST = re.compile(r"\(?(?:stdout|stderr|logs?|output|last \d{1,6} lines)\)?(?=$|[\s/,;|@)])", re.IGNORECASE)
_PLAIN = re.compile(r"[\w.-]{1,80}/?")


class SectionHeading(NamedTuple):
    """A line in a file that names the source of the lines below it."""

    begin: int
    """Offset of the heading's first line (bytes)."""
    end: int
    """Offset after the heading's last line (bytes)."""
    title: str
    place: str
    """The source that the heading names, as a path: `gpu-b03/rank_5.log`."""
    sure: bool
    """True if a tool prints such a heading only above a file."""


def sections_of(log: LogPath) -> list[LogPath]:
    """Return the logs that were pasted into a file as sections; else the log itself alone."""
    if log.packing is not None or not 0 < log.size <= MAX_BYTES:
        return [log]
    try:
        with open_file(log.path) as file:
            if log.size > PIECE_BYTES and not may_have_headings(file):
                return [log]
            file.seek(0)
            data = file.read(MAX_BYTES)
    except OSError:
        return [log]  # the reader of the file reports the reason
    if bug_report.MARK.encode() in data[:BEGIN_BYTES]:
        return [log]  # a bug report: all headings are of one machine, and it has its own reader
    found = list(headings(data)) if _START.search(data) is not None else []
    if not is_pasted(found, data, log):
        return [log]
    folder = PurePath(log.inner).parent
    parted = []
    if data[: found[0].begin].strip():
        parted.append(_part(log, 0, found[0].begin, 0, "head", log.inner))
    for heading, end in zip(found, [*(each.begin for each in found[1:]), len(data)], strict=True):
        lines = data.count(b"\n", 0, heading.end)
        parted.append(
            _part(log, heading.end, end, lines, heading.title, str(folder / heading.place.lstrip("/")))
        )
    return with_own_names(parted)


def may_have_headings(file: BinaryIO) -> bool:
    """Return True if a line behind the first one in a file begins as a heading does.

    The file is read in pieces into the same memory, which takes half as long as reading it at once.
    """
    buffer = bytearray(PIECE_BYTES)
    kept = 0
    while size := file.readinto(memoryview(buffer)[kept:]):  # type: ignore[attr-defined]  # the file is unbuffered
        end = kept + size
        if _START.search(buffer, 0, end) is not None:
            return True
        kept = min(end, START_BYTES - 1)  # a beginning may be cut here
        buffer[:kept] = buffer[end - kept : end]
    return False


def _part(log: LogPath, begin: int, end: int, lines: int, title: str, inner: str) -> LogPath:
    packing = section_packing(begin, end, lines)
    return replace(log, name=f"{log.name} ({title})", inner=inner, size=end - begin, packing=packing)


def with_own_names(logs: Sequence[LogPath]) -> list[LogPath]:
    """Return the sections, with numbers appended to repeated names."""
    seen: dict[str, int] = {}
    named = []
    for log in logs:
        seen[log.name] = seen.get(log.name, 0) + 1
        number = seen[log.name]
        named.append(log if number == 1 else replace(log, name=f"{log.name} {number}"))
    return named


def headings(data: bytes) -> Iterator[SectionHeading]:
    """Yield the headings in a file, in order."""
    at = 0
    lines = data.split(b"\n")
    for number, raw in enumerate(lines):
        begin, at = at, at + len(raw) + 1
        if raw[:1] not in b"=#-:*>~+[" or not raw or len(raw) > 240:
            continue
        text = line_text(raw).strip()
        tail = _TAIL.match(text)
        if tail is not None:
            yield SectionHeading(begin, at, tail["file"], tail["file"], sure=True)
        elif (
            _RULE_OF_MORE.match(text)
            and number + 2 < len(lines)
            and line_text(lines[number + 2]).strip() == text
        ):
            name = line_text(lines[number + 1]).strip()
            if name:
                end = at + len(lines[number + 1]) + len(lines[number + 2]) + 2
                yield SectionHeading(begin, end, name, name, sure=True)
        elif (ruled := _RULED.match(text)) is not None:
            place = place_in(ruled["title"])
            if place is not None:
                yield SectionHeading(begin, at, ruled["title"].strip(), place, sure=False)


def place_in(title: str) -> str | None:
    """Return the path that a title names (node, then rank or file); None if it contains other words."""
    preface = _PREFACE.match(title)
    at = 0 if preface is None else preface.end()
    node: str | None = None
    rank: str | None = None
    file: str | None = None
    while at < len(title):
        named = node or rank or file
        rest: re.Match[str] | None = _REST.match(title, at) if named else None
        part = rest or _PART.match(title, at)
        if part is None or (rest is None and part["host"] and not may_be_host(part["host"])):
            return None
        if rest is None:
            rank = part["rank"] or rank
            file = part["file"] or file
            node = part["node"] or part["host"] or node
        gap = _BETWEEN.match(title, part.end())
        if gap is None:
            return None
        at = gap.end()
    if rank is None and file is None and node is None:
        return None
    last = file or (f"rank_{rank}.log" if rank is not None else f"{node}.log")
    return last if node is None or (rank is None and file is None) else f"{node}/{last}"


def is_pasted(found: Sequence[SectionHeading], data: bytes, log: LogPath) -> bool:
    """Return True if the headings separate pasted logs, and are not lines of one running program.

    A program writes its lines in order of time, a few below each of its banners.
    """
    if not 2 <= len(found) <= MAX_SECTIONS or len({each.place for each in found}) < 2:
        return False
    if all(each.sure for each in found):
        return True
    if ranks_of_path(f"/{log.inner}")[0] is not None:
        return False
    ends = [*(each.begin for each in found[1:]), len(data)]
    lines = sorted(data.count(b"\n", each.end, end) for each, end in zip(found, ends, strict=True))
    if lines[len(lines) // 2] < MIN_LINES:
        return False
    borders = [
        (_last_time(data[before.end : after.begin]), _first_time(data[after.end : end]))
        for (before, after), end in zip(pairwise(found), ends[1:], strict=True)
    ]
    dated = [(last, first) for last, first in borders if last is not None and first is not None]
    return not dated or any(first <= last for last, first in dated)


def _first_time(data: bytes) -> float | None:
    return next(_times(data.split(b"\n", NEAR_LINES)[:NEAR_LINES]), None)


def _last_time(data: bytes) -> float | None:
    return next(_times(reversed(data.rsplit(b"\n", NEAR_LINES)[-NEAR_LINES:])), None)


def _times(lines: Iterator[bytes] | Sequence[bytes]) -> Iterator[float]:
    for line in lines:
        at = time_of(line_text(line), 0.0)
        if at is not None:
            yield at
