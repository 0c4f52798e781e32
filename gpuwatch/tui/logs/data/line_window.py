"""The loaded, consecutive lines of one file."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeAlias

from gpuwatch.fleet.logs.log_stream import KEPT_CHARACTERS
from gpuwatch.wire import LogLine

SLACK_LINES = 2_000
"""The oldest lines are dropped in groups of this size: shifting a list costs its whole length."""
SLACK_CHARACTERS = KEPT_CHARACTERS // 10
AHEAD_S = 60.0
"""A line's own time is ignored if it is this many seconds after its arrival."""
UNKNOWN = float("-inf")
"""The time of a line that has none itself and follows no line with a time."""


Dated: TypeAlias = Callable[[int], "tuple[float, int] | None"]
"""A function: byte offset of a line -> (time of the finding on it by the node's clock, number of lines
before it that belong to the finding, such as those of a traceback); None without a finding.
"""


def line_time(line: LogLine, before: float) -> float:
    """Return a line's time on the node's clock: its own, else its arrival; never before `before`.

    `before` is the previous line's time. A line's own time more than 60 s after its arrival is ignored.
    """
    own = line.t
    if own is not None and (line.arrived is None or own <= line.arrived + AHEAD_S):
        return max(before, own)
    return before if line.arrived is None else max(before, line.arrived)


def line_times(lines: Iterable[LogLine], before: float, dated: Dated | None = None) -> list[float]:
    """Return the time of each line by the node's clock; times never decrease and are never before `before`.

    A line without a time gets the time of the finding to which it belongs, else that of the line before it:
    an undated traceback stays where it was written, and does not move to the start of its file.
    """
    undated, times = list[int](), list[float]()
    for line in lines:
        has_time = line.t is not None or line.arrived is not None
        known = None if has_time or dated is None else dated(line.offset)
        before = line_time(line, before) if known is None else max(before, known[0])
        times.append(before)
        if has_time:
            undated.clear()
        elif known is None:
            undated.append(len(times) - 1)
        else:
            for number in undated[max(0, len(undated) - known[1]) :]:
                times[number] = before
            undated.clear()
    return times


class Window:
    """Consecutive lines of one file, with fixed numbers.

    `base` is the number of the first loaded line. `epoch` increases when other lines replace them.
    """

    def __init__(self, kept: int, dated: Dated | None = None) -> None:
        """Create an empty window.

        Args:
            kept: How many lines are kept when more are added (plus some slack).
            dated: The times of findings on lines that have none themselves.
        """
        self.lines: list[LogLine] = []
        self.times: list[float] = []
        """On the node's clock, never decreasing."""
        self.base = 0
        self.epoch = 0
        self.touched = (0, 0)
        """How often loaded lines changed in place, and the first number of the last change."""
        self.live = False
        """True if the file's end is loaded and followed."""
        self.at_start = False
        self.at_end = False
        self.offset_s = 0.0
        """The node's clock minus ours in seconds."""
        self.seams: dict[int, str] = {}
        """Number of the first line after it -> what happened to the file."""
        self._kept = kept
        self._dated = dated
        self._characters = 0
        """Number of characters in the loaded lines."""

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def end(self) -> int:
        """The number after the last line."""
        return self.base + len(self.lines)

    def line(self, number: int) -> LogLine:
        """Return the line with this number, which must be loaded (not checked)."""
        return self.lines[number - self.base]

    def time(self, number: int) -> float:
        """Return the line's time on our clock (unix seconds); `UNKNOWN` (minus infinity) without any."""
        return self.times[number - self.base] - self.offset_s

    def at_time(self, at: float) -> int:
        """Return the number of the first loaded line not older than a time of our clock, else the last."""
        return min(self.base + bisect_left(self.times, at + self.offset_s), max(self.base, self.end - 1))

    def at_offset(self, offset: int) -> int | None:
        """Return the number of the loaded line that contains a byte of the file; None if none does."""
        if not self.lines or offset < self.lines[0].offset:
            return None
        index = bisect_left(self.lines, offset + 1, key=lambda line: line.offset) - 1
        return self.base + index if offset < self.lines[index].end else None

    def covers(self, at: float) -> bool:
        """Return True if a time of our clock lies within the loaded lines."""
        if not self.lines:
            return False
        wanted = at + self.offset_s
        return (self.at_start or self.times[0] < wanted) and (
            self.live or self.at_end or wanted <= self.times[-1]
        )

    @property
    def torn(self) -> bool:
        """True if the file was replaced or truncated while its lines were loaded.

        Lines above such a seam are in no file any more, so pages cannot continue from their offsets.
        """
        return bool(self.seams)

    @property
    def overfull(self) -> bool:
        """True if more lines or characters are loaded than are kept, plus some slack."""
        return (
            len(self.lines) > self._kept + SLACK_LINES
            or self._characters > KEPT_CHARACTERS + SLACK_CHARACTERS
        )

    # ---- changes

    def drop_last(self) -> None:
        """Remove the last line, because it is received again."""
        self._characters -= len(self.lines.pop().text)
        self.times.pop()
        self.touched = (self.touched[0] + 1, self.end)

    def append(self, lines: Iterable[LogLine]) -> None:
        """Add lines after the last one."""
        new = list(lines)
        self.times += line_times(new, self.times[-1] if self.times else UNKNOWN, self._dated)
        self.lines += new
        self._characters += sum(len(line.text) for line in new)

    def let_go(self) -> None:
        """Drop the oldest lines over the limit."""
        count = len(self.lines) - self._fitting(reversed(self.lines))
        self._characters -= sum(len(line.text) for line in self.lines[:count])
        del self.lines[:count]
        del self.times[:count]
        self.base += count
        self.at_start = False
        for number in [number for number in self.seams if number < self.base]:
            del self.seams[number]

    def replace(self, lines: list[LogLine]) -> None:
        """Replace all lines by others; their numbers continue after the old ones."""
        self.base = self.end
        self.epoch += 1
        self.lines, self.times, self._characters = [], [], 0
        self.seams.clear()
        self.at_start = self.at_end = self.live = False
        self.append(lines)

    def put_before(self, lines: list[LogLine]) -> None:
        """Add a page before the first line; if that is too much, lines at the far end are dropped."""
        first = self.lines[0].offset if self.lines else None
        lines = [line for line in lines if first is None or line.offset < first]
        self.at_start = not lines or lines[0].offset == 0
        times = line_times(lines, UNKNOWN, self._dated)
        ceiling = self.times[0] if self.times else UNKNOWN
        if ceiling != UNKNOWN:
            times = [min(time, ceiling) for time in times]
        self.lines[:0], self.times[:0] = lines, times
        self._characters += sum(len(line.text) for line in lines)
        self.base -= len(lines)
        if self.overfull:  # the far end goes
            fitting = self._fitting(self.lines)
            self._characters -= sum(len(line.text) for line in self.lines[fitting:])
            del self.lines[fitting:]
            del self.times[fitting:]
            self.live = self.at_end = False
            self.touched = (self.touched[0] + 1, self.end)

    def _fitting(self, lines: Iterable[LogLine]) -> int:
        """Return how many of the leading lines are kept within the limits: at least one."""
        characters = 0
        for count, line in enumerate(islice(lines, self._kept)):
            characters += len(line.text)
            if characters > KEPT_CHARACTERS and count:
                return count
        return min(len(self.lines), self._kept)
