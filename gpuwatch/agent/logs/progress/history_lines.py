"""Samples a log's lines from before the agent started: some lines of each shape, evenly spaced."""

import math
import re
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .dialect import CompiledDialect

HISTORY_STEPS = 200
"""Steps reported for one writer."""
MAX_SHAPE_LINES = 2 * HISTORY_STEPS
"""Most lines of one shape; at least half as many are kept if there were more."""
KEPT_IN_ALL = 4 * MAX_SHAPE_LINES
"""Most lines kept over all shapes; about 60 ms to parse."""
LATEST_LINES = 64
"""Newest lines of all shapes that are kept besides, for timers: they show the present."""
MAX_SHAPES = 512
MAX_LINE = 4096
RANKS_APART = 64
"""Steps by which ranks that share a file without numbers may differ."""
MAX_WRITERS, MAX_BEFORE = 1024, 4
NAN = re.compile(rb"(?i)(?<![a-z_])nan(?![a-z_])")
WRITER = re.compile(
    rb"^\s*(?:\[[^\]\d]{0,12}\d{1,6}\]|\d{1,6}: |\[\d+,\d+\]<)|[Rr](?:ank|ANK)\"?[ :=]{0,3}\d{1,6}\b"
)
"""The writer of a line, from its first 200 bytes."""


class HistoryLine(object):
    """A line with its number and (once known) its offset in the file in bytes."""

    __slots__ = ("line", "number", "offset")

    def __init__(self, number: int, offset: int, line: bytes) -> None:
        self.number = number
        self.offset = offset
        self.line = line


class _Kept(object):
    """The stored lines of one shape: every `stride`-th line, and the last one."""

    __slots__ = ("dialects", "has_nan", "last", "lines", "seen", "stride")

    def __init__(self, dialects: "list[CompiledDialect]", shape: bytes) -> None:
        self.dialects = dialects
        self.has_nan = NAN.search(shape) is not None
        self.lines: list[HistoryLine] = []
        self.last = HistoryLine(-1, 0, b"")
        self.seen = 0
        self.stride = 1

    def thin(self) -> int:
        """Drop every second stored line; return how many were dropped."""
        before = len(self.lines)
        self.lines = self.lines[::2]
        self.stride *= 2
        return before - len(self.lines)


class Past(object):
    """Samples the lines of a backlog, which it receives in file order."""

    def __init__(self) -> None:
        self._kept: dict[bytes, _Kept] = {}
        self._number = 0
        self._lines = 0
        self._unplaced: list[HistoryLine] = []
        """Lines added last; their offsets are relative to their stretch."""
        self._latest: deque[tuple[HistoryLine, list[CompiledDialect]]] = deque(maxlen=LATEST_LINES)
        self._before: dict[bytes, dict[bytes, tuple[HistoryLine, list[CompiledDialect]]]] = {}
        """Writer -> shape without a NaN -> its newest line."""
        self._onsets: dict[tuple[bytes, bytes], list[tuple[HistoryLine, list[CompiledDialect]]]] = {}
        """(writer, shape with a NaN) -> the first such line, after the newest ones before it."""

    def take(
        self, lines: "list[bytes]", shapes: "list[bytes]", paced: "dict[bytes, list[CompiledDialect]]"
    ) -> None:
        """Sample the next lines of a backlog; `shapes` has the shape of each.

        Left out: lines whose shape is not in `paced` (only those there may report progress), lines of over
        `MAX_LINE` bytes, and new shapes beyond `MAX_SHAPES`.
        """
        end = 0
        for index, shape in enumerate(shapes):
            begin, end = end, end + len(lines[index]) + 1
            if shape not in paced:
                continue
            kept = self._kept.get(shape)
            if kept is None:
                if len(self._kept) >= MAX_SHAPES:
                    continue
                kept = self._kept[shape] = _Kept(paced[shape], shape)
            if len(lines[index]) > MAX_LINE:
                continue
            kept.last = HistoryLine(self._number + index, begin, lines[index])
            self._unplaced.append(kept.last)
            self._latest.append((kept.last, kept.dialects))
            self._note_onset(kept, shape)
            if kept.seen % kept.stride == 0:
                kept.lines.append(kept.last)
                self._lines += 1
                if len(kept.lines) > MAX_SHAPE_LINES:
                    self._lines -= kept.thin()
                if self._lines > KEPT_IN_ALL:
                    self._lines -= sum([each.thin() for each in self._kept.values()])
            kept.seen += 1
        self._number += len(lines)

    def place(self, offset_of: "Callable[[int], int]") -> None:
        """Set the file offsets of the lines added last; `offset_of`: relative offset -> file offset."""
        for row in self._unplaced:
            row.offset = offset_of(row.offset)
        del self._unplaced[:]

    def _note_onset(self, kept: "_Kept", shape: bytes) -> None:
        found = WRITER.search(kept.last.line, 0, 200)
        writer = found.group() if found else b""
        before = self._before.get(writer)
        if before is None:
            if len(self._before) >= MAX_WRITERS:
                return
            before = self._before[writer] = {}
        if not kept.has_nan:
            if shape in before or len(before) < MAX_BEFORE:
                before[shape] = (kept.last, kept.dialects)
        elif (writer, shape) not in self._onsets and len(self._onsets) < MAX_WRITERS:
            self._onsets[writer, shape] = list(before.values()) + [(kept.last, kept.dialects)]

    def lines(self) -> "list[tuple[HistoryLine, list[CompiledDialect]]]":
        """Return (line, dialects of its shape) of the stored lines, in file order."""
        found = []
        for kept in self._kept.values():
            lines = kept.lines if kept.lines[-1:] == [kept.last] else kept.lines + [kept.last]
            found += [(row, kept.dialects) for row in lines]
        there = {row[0].number: row for rows in self._onsets.values() for row in rows}
        there.update((row[0].number, row) for row in found)
        found = list(there.values())
        found.sort(key=_number)
        return found

    def latest(self) -> "list[tuple[HistoryLine, list[CompiledDialect]]]":
        """Return (line, dialects of its shape) of the newest lines, in file order."""
        return list(self._latest)


def evenly(points: "list[Any]") -> "list[Any]":
    """Return at most `HISTORY_STEPS` of the points, evenly spaced.

    The first and the last are always among them; if the losses end with NaN or infinity, also the first
    of these and the point before it.
    """
    if len(points) <= HISTORY_STEPS:
        return points
    last = len(points) - 1
    chosen = {at * last // (HISTORY_STEPS - 3) for at in range(HISTORY_STEPS - 2)}
    for apart in (0, RANKS_APART):
        turn = _turn(points, apart)
        if turn is not None:
            chosen.update((max(0, turn - 1), turn))
    return [points[at] for at in sorted(chosen)]


def _turn(points: "list[Any]", apart: int) -> "int | None":
    """Return the index of the point where the final run of non-finite losses starts; None: there is none.

    Finite values less than `apart` steps before it count as those of ranks that lag slightly.
    """
    turn = None
    for at in range(len(points) - 1, -1, -1):
        loss = points[at][2]
        if loss is not None:
            if not math.isfinite(float(loss)):
                turn = at
            elif turn is None or points[turn][0] - points[at][0] >= apart:
                return turn
    return turn


def _number(row: "tuple[HistoryLine, list[CompiledDialect]]") -> int:
    return row[0].number
