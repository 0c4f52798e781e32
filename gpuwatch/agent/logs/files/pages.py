"""Reads pages of a file: lines around an offset, a time or its end, without reading all of it."""

from ..lines.rows import row
from ..lines.splitter import MAX_LINE, Splitter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    ReadAt = Callable[[int, int], bytes]
    """(offset, count) -> bytes; fewer at the end of the file."""

MAX_ROWS = 20000
MAX_BYTES = 4 << 20
"""Most bytes read in one direction; a progress bar's many states are one line."""
MAX_TEXT = 256 * 1024
"""Bytes of lines (each cut at `MAX_LINE`) in one direction of a page."""
_BLOCK_BYTES = 64 * 1024
_NEAR_BYTES = 4096
_OWN_TIME = 3
"""Index in a row (`wire.LogLine`) of the line's own time."""


def around(
    read_at: "ReadAt",
    size: int,
    offset: int,
    counts: "tuple[int, int]",
    bare: bool = False,
    until: "float | None" = None,
) -> "list[list[Any]]":
    """Return rows (`wire.LogLine`) of the lines around the one that contains byte `offset`.

    `counts`: how many before that line, and how many from it on; `bare`: the latter without time, rank and
    level, which saves most of the CPU time; `until`: as for `row`.
    """
    before, after = counts
    start = line_start(read_at, min(offset, size))
    rows = above(read_at, start, min(before, MAX_ROWS), until)
    rows += below(read_at, size, start, min(after, MAX_ROWS), bare, until)
    return rows


def line_start(read_at: "ReadAt", offset: int) -> int:
    """Return the start of the line that contains byte `offset`, at most `MAX_BYTES` before it."""
    reach = _NEAR_BYTES
    while True:
        begin = max(0, offset - reach)
        data = read_at(begin, offset - begin)
        found = max(data.rfind(b"\n"), data.rfind(b"\r"))
        if found >= 0:
            return begin + found + 1
        if begin == 0 or reach >= MAX_BYTES:
            return begin
        reach = min(8 * reach, MAX_BYTES)


def tail_start(read_at: "ReadAt", size: int, count: int) -> int:
    """Return the start offset of at least the last `count` lines, within `MAX_BYTES`."""
    reach = _BLOCK_BYTES
    while True:
        begin = max(0, size - reach)
        data = read_at(begin, size - begin)
        if begin == 0:
            return 0
        if data.count(b"\n") > count or reach >= MAX_BYTES:
            return begin + max(data.find(b"\n"), data.find(b"\r") if b"\n" not in data else -1) + 1
        reach *= 4


def above(read_at: "ReadAt", start: int, count: int, until: "float | None" = None) -> "list[list[Any]]":
    """Return rows of the last `count` lines that end at `start`, within `MAX_TEXT` and `MAX_BYTES`."""
    reach, wanted = _BLOCK_BYTES, count
    while count > 0 and start > 0:
        begin = max(0, start - reach)
        data = read_at(begin, start - begin)
        first = data.find(b"\n", 0, len(data) - 1) + 1 if begin else 0
        at, complete = _last_lines(data, first, wanted)
        if complete or begin == 0 or reach >= MAX_BYTES:
            rows = _split(data[at:], begin + at)
            if len(rows) >= count or at == first or complete is None:
                return [row(*one, arrived=None, until=until) for one in rows[-count:]]
            wanted *= 4  # many states of a bar are one row
            continue
        reach *= 4
    return []


def _last_lines(data: bytes, first: int, count: int) -> "tuple[int, bool | None]":
    """Return (start of the last `count` lines, whether all are present); None: `MAX_TEXT` cuts some."""
    at, text = len(data), 0
    while count > 0 and at > first:
        begin = data.rfind(b"\n", first, at - 1) + 1 or first
        text += min(at - begin, MAX_LINE)
        if text > MAX_TEXT and at < len(data):
            return at, None
        at = begin
        count -= 1
    return at, count == 0


def below(
    read_at: "ReadAt", size: int, start: int, count: int, bare: bool = False, until: "float | None" = None
) -> "list[list[Any]]":
    """Return rows of the first `count` lines from `start` on, within `MAX_TEXT` and `MAX_BYTES`.

    An unfinished last line is included.
    """
    splitter, at = Splitter(), start
    rows: list[tuple[int, int, str]] = []
    text = 0
    while len(rows) < count and at < min(size, start + MAX_BYTES) and text <= MAX_TEXT:
        data = read_at(at, _BLOCK_BYTES)
        if not data:
            break
        added = splitter.feed(data, at)
        text += sum(len(one[2]) for one in added)
        rows += added
        at += len(data)
    tail = splitter.tail()
    if tail is not None and len(rows) < count and (at >= size or not rows):
        rows.append(tail)
    return [list(one) if bare else row(*one, arrived=None, until=until) for one in rows[:count]]


def offset_of_time(read_at: "ReadAt", size: int, wanted: float, until: "float | None" = None) -> "int | None":
    """Return the offset of the first line whose own time is `wanted` or later; None if no line has a time.

    The end of the file if all times are earlier. A bisection that assumes rising times. Lines without a time
    belong to the one before.
    """
    low, high, any_time = 0, size, False
    while high - low > _BLOCK_BYTES:
        middle = line_start(read_at, (low + high) // 2)
        found = _first_time(read_at, size, max(middle, low), until)
        if found is None:
            high = (low + high) // 2
            continue
        any_time = True
        if found[1] < wanted:
            low = max(found[0], low + 1)
        else:
            high = (low + high) // 2
    for one in _split(read_at(low, min(size, high + 2 * _BLOCK_BYTES) - low), low):
        reported = row(*one, arrived=None, until=until)[_OWN_TIME]
        any_time = any_time or reported is not None
        if reported is not None and reported >= wanted:
            return one[0]
        low = one[1]
    return low if any_time else None


def _first_time(
    read_at: "ReadAt", size: int, start: int, until: "float | None"
) -> "tuple[int, float, int] | None":
    """Return (offset, own time, end) of the first timed line in the block at `start`; None: it has none."""
    data = read_at(start, min(_BLOCK_BYTES, size - start))
    for one in _split(data, start):
        reported = row(*one, arrived=None, until=until)[_OWN_TIME]
        if reported is not None:
            return one[0], reported, one[1]
    return None


def _split(data: bytes, offset: int) -> "list[tuple[int, int, str]]":
    splitter = Splitter()
    rows = splitter.feed(data, offset)
    tail = splitter.tail()
    return rows if tail is None else rows + [tail]
