"""Lines of one file that follow each other: the part of it that is loaded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice

from gpuwatch.fleet.logs.log_stream import KEPT_CHARACTERS
from gpuwatch.wire import LogLine

SLACK_LINES = 2_000
"""The oldest lines go so many at a time: shifting a list costs its whole length."""
SLACK_CHARACTERS = KEPT_CHARACTERS // 10
AHEAD_S = 60.0
"""A line's own time that is so far after its arrival is not believed."""
UNKNOWN = float("-inf")
"""The time of lines before the first one that reports any."""


def line_time(line: LogLine, before: float) -> float:
    """When, on the node's clock: own time, else arrival, else the line's before; never earlier than that."""
    own = line.t
    if own is not None and (line.arrived is None or own <= line.arrived + AHEAD_S):
        return max(before, own)
    return before if line.arrived is None else max(before, line.arrived)


class Window:
    """Lines that follow each other in one file, counted by numbers that stay theirs.

    `base` is the number of the first one loaded. `epoch` moves when other lines took their place.
    """

    def __init__(self, kept: int) -> None:
        """Hold nothing yet.

        Args:
            kept: How many lines stay when more are added, and some slack.
        """
        self.lines: list[LogLine] = []
        self.times: list[float] = []
        """On the node's clock, never falling."""
        self.base = 0
        self.epoch = 0
        self.touched = (0, 0)
        """How often loaded lines changed in place, and from which number on the last time."""
        self.live = False
        """Whether the file's end is loaded and grows."""
        self.at_start = False
        self.at_end = False
        self.offset_s = 0.0
        """The node's clock minus ours."""
        self.seams: dict[int, str] = {}
        """Number of the first line after it -> what happened."""
        self._kept = kept
        self._characters = 0
        """Of the lines that are loaded."""

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def end(self) -> int:
        """The number after the last line."""
        return self.base + len(self.lines)

    def line(self, number: int) -> LogLine:
        """A loaded line."""
        return self.lines[number - self.base]

    def time(self, number: int) -> float:
        """When, on our clock; `UNKNOWN` where nothing reports."""
        return self.times[number - self.base] - self.offset_s

    def at_time(self, at: float) -> int:
        """The number of the first loaded line that is not older than a time of our clock."""
        return min(self.base + bisect_left(self.times, at + self.offset_s), max(self.base, self.end - 1))

    def at_offset(self, offset: int) -> int | None:
        """The number of the loaded line that holds a byte, the newest one where a file began anew."""
        if not self.lines or offset < self.lines[0].offset:
            return None
        index = bisect_left(self.lines, offset + 1, key=lambda line: line.offset) - 1
        return self.base + index if offset < self.lines[index].end else None

    def covers(self, at: float) -> bool:
        """Whether that time of our clock lies within what is loaded."""
        if not self.lines:
            return False
        wanted = at + self.offset_s
        return (self.at_start or self.times[0] < wanted) and (
            self.live or self.at_end or wanted <= self.times[-1]
        )

    @property
    def torn(self) -> bool:
        """What is above a seam is in no file any more, so pages cannot be counted from its offsets."""
        return bool(self.seams)

    @property
    def overfull(self) -> bool:
        """Whether more is loaded than is kept."""
        return (
            len(self.lines) > self._kept + SLACK_LINES
            or self._characters > KEPT_CHARACTERS + SLACK_CHARACTERS
        )

    # ---- changes

    def drop_last(self) -> None:
        """Take the last line away: it is reported anew."""
        self._characters -= len(self.lines.pop().text)
        self.times.pop()
        self.touched = (self.touched[0] + 1, self.end)

    def append(self, lines: Iterable[LogLine]) -> None:
        """Add lines behind the last one."""
        last = self.times[-1] if self.times else UNKNOWN
        for line in lines:
            last = line_time(line, last)
            self.lines.append(line)
            self._characters += len(line.text)
            self.times.append(last)

    def let_go(self) -> None:
        """Forget the oldest lines, as many as are more than are kept."""
        count = len(self.lines) - self._fitting(reversed(self.lines))
        self._characters -= sum(len(line.text) for line in self.lines[:count])
        del self.lines[:count]
        del self.times[:count]
        self.base += count
        self.at_start = False
        for number in [number for number in self.seams if number < self.base]:
            del self.seams[number]

    def replace(self, lines: list[LogLine]) -> None:
        """Hold other lines instead."""
        self.base = self.end
        self.epoch += 1
        self.lines, self.times, self._characters = [], [], 0
        self.seams.clear()
        self.at_start = self.at_end = self.live = False
        self.append(lines)

    def put_before(self, lines: list[LogLine]) -> None:
        """Add a page before the first line; pages of long lines have fewer than were asked for."""
        first = self.lines[0].offset if self.lines else None
        lines = [line for line in lines if first is None or line.offset < first]
        self.at_start = not lines or lines[0].offset == 0
        last, times = UNKNOWN, []
        for line in lines:
            last = line_time(line, last)
            times.append(last)
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
        """How many of the lines, from the first one on, are kept: at least one."""
        characters = 0
        for count, line in enumerate(islice(lines, self._kept)):
            characters += len(line.text)
            if characters > KEPT_CHARACTERS and count:
                return count
        return min(len(self.lines), self._kept)
