"""The part of a file that is loaded: its growing end, or a window in it. Pages come from the node."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Protocol

from gpuwatch.fleet.log_stream import KEPT_LINES, LogStream
from gpuwatch.tui.log_source import LogSource
from gpuwatch.wire import LogLine

PAGE = 500
"""Lines that are read at once; fewer where many files are."""
SLACK = 2_000
"""The oldest lines go so many at a time: shifting a list costs its whole length."""
AHEAD_S = 60.0
"""A line's own time that is so far after its arrival is not believed."""
UNKNOWN = float("-inf")
"""The time of lines before the first one that tells any."""
RATE_S = 5.0


class Asker(Protocol):
    """What a buffer needs of a session."""

    def tail(self, node: str, file: str, lines: int = 200) -> LogStream:
        """The last lines and every new one."""
        ...

    def read_lines(
        self,
        node: str,
        file: str,
        *,
        offset: int | None = None,
        time: float | None = None,
        before: int = 0,
        after: int = 0,
    ) -> LogStream:
        """Lines around a place."""
        ...

    def drop(self, stream: LogStream) -> None:
        """Nobody looks at it any more."""
        ...


def line_time(line: LogLine, before: float) -> float:
    """When, on the node's clock: own time, else arrival, else the line's before; never earlier than that."""
    own = line.t
    if own is not None and (line.arrived is None or own <= line.arrived + AHEAD_S):
        return max(before, own)
    return before if line.arrived is None else max(before, line.arrived)


class _Read:
    """A page that was asked for."""

    def __init__(
        self, stream: LogStream, where: str, time: float | None = None, offset: int | None = None
    ) -> None:
        self.stream = stream
        self.where = where
        self.time = time
        self.offset = offset


class Buffer:
    """Lines that follow each other in one file, counted by numbers that stay theirs.

    `base` is the number of the first one loaded. `epoch` moves when other lines took their place.
    """

    def __init__(self, source: LogSource, asker: Asker, *, kept: int = KEPT_LINES, page: int = PAGE) -> None:
        self.source = source
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
        self.held = False
        """The person has scrolled back: the oldest lines may not go."""
        self.offset_s = 0.0
        """The node's clock minus ours."""
        self.seams: dict[int, str] = {}
        """Number of the first line after it -> what happened."""
        self.error = ""
        self.target: int | None = None
        """Number of the line that was gone to, once it is loaded."""
        self.size: int | None = None
        self._asker = asker
        self._kept = kept
        self._page = page
        self._tail: LogStream | None = None
        self._taken = 0
        self._replaced = 0
        self._seams_taken = 0
        self._read: _Read | None = None
        self._pace: deque[tuple[float, int]] = deque()

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def end(self) -> int:
        """The number after the last line."""
        return self.base + len(self.lines)

    @property
    def reading(self) -> str:
        """Which page is on its way: earlier, later, there, or none."""
        return self._read.where if self._read else ""

    @property
    def waiting(self) -> int:
        """Lines that came at the file's end and are not loaded here."""
        return self._tail.came - self._taken if self._tail else 0

    def line(self, number: int) -> LogLine:
        """A loaded line."""
        return self.lines[number - self.base]

    def source_of(self, number: int) -> LogSource:  # noqa: ARG002 - a merged view has several
        """Whose line it is."""
        return self.source

    def time(self, number: int) -> float:
        """When, on our clock; `UNKNOWN` where nothing tells."""
        return self.times[number - self.base] - self.offset_s

    def place(self, number: int) -> tuple[LogSource, int]:
        """What tells a line from all others."""
        return self.source, number

    def find(self, place: tuple[LogSource, int]) -> int | None:
        """The number of a line that `place` told."""
        return place[1] if self.base <= place[1] < self.end else None

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

    def rate(self, now: float) -> float | None:
        """Lines a second of late; None: too soon to tell."""
        if self._tail is None or not self._tail.came:
            return None
        self._pace.append((now, self._tail.came))
        while len(self._pace) > 2 and self._pace[1][0] <= now - RATE_S:
            self._pace.popleft()
        (then, before), (last, came) = self._pace[0], self._pace[-1]
        return (came - before) / (last - then) if last - then >= 1.0 else None

    # ---- gestures

    def follow(self, lines: int = 200) -> None:
        """Load the end of the file and grow with it."""
        self.held = False
        self._forget_read()
        if self._tail is None:
            self._tail = self._asker.tail(self.source.node, self.source.file, lines)
            self._taken = self._seams_taken = 0
            self.live = True
        elif not self.live:
            self._replace([])
            self._taken = self._tail.came - len(self._tail.lines)
            self._seams_taken = len(self._tail.seams)
            self.live = True
            self._take_new()

    def earlier(self) -> None:
        """Read the page before what is loaded, unless one is on its way or there is none."""
        if self._read or self.at_start or not self.lines or self._torn():
            return
        first = self.lines[0].offset
        if first == 0:
            self.at_start = True
            return
        self._ask("earlier", offset=first, before=self._page)

    def later(self) -> None:
        """Read the page behind what is loaded, where the end is not loaded."""
        if self._read is None and not self.live and not self.at_end and self.lines:
            self._ask("later", offset=self.lines[-1].end, after=self._page)

    def go(self, *, offset: int | None = None, at: float | None = None) -> None:
        """Load what is around a byte, or a time of our clock; `target` tells the line once it is here."""
        self._forget_read()  # a page that is still on its way would take the place of what is gone to
        if offset is not None and (found := self.at_offset(offset)) is not None and not self._torn():
            self.target = found
        elif at is not None and self.covers(at):
            self.target = self.at_time(at)
        else:
            when = None if at is None else at + self.offset_s
            self._ask(
                "there",
                offset=offset,
                time=when if offset is None else None,
                before=self._page,
                after=self._page,
            )

    def close(self) -> None:
        """End what was asked for."""
        self._forget_read()
        if self._tail is not None:
            self._asker.drop(self._tail)
            self._tail = None

    # ---- what comes

    def pull(self, *, frozen: bool = False) -> None:
        """Take in what came; a frozen view takes only the pages that it asked for."""
        if self._read is not None and self._read.stream.done:
            self._take_page(self._read)
        if self._tail is None or frozen:
            return
        if self._tail.error and not self.lines:
            self.error = self._tail.error
        elif not self._tail.error and self._read is None and self.lines:
            self.error = "" if self.live else self.error
        self.size = self._tail.size if self._tail.size is not None else self.size
        if self.live and (self._tail.came > self._taken or self._tail.replaced != self._replaced):
            self._take_new()

    def _take_new(self) -> None:
        stream = self._tail
        if stream is None:
            return
        new = stream.came - self._taken
        if new > len(stream.lines) and self.lines:  # more came than the stream keeps: what is here is old
            if self.held:
                self.live = False
                return
            self._replace([])
            self.live = True
        new = min(new, len(stream.lines))
        self._renew_last(stream, new)
        first = stream.came - new
        lines = list(islice(stream.lines, len(stream.lines) - new, None))
        for seam in stream.seams[self._seams_taken :]:
            if seam.index >= first and (seam.index > 0 or self.lines):
                self.seams[self.end + seam.index - first] = seam.what
        self._seams_taken = len(stream.seams)
        self._taken = stream.came
        if self.lines and lines and lines[0].offset == self.lines[-1].offset and self.end not in self.seams:
            self._drop_last()  # it had no line end yet
        self._append(lines)
        self.at_start = self.at_start or (bool(self.lines) and self.lines[0].offset == 0)
        if len(self.lines) > self._kept + SLACK:
            if self.held:
                self.live = False
            else:
                self._let_go(len(self.lines) - self._kept)

    def _renew_last(self, stream: LogStream, new: int) -> None:
        """The last line that was taken before the new ones may have grown."""
        if stream.replaced == self._replaced:
            return
        self._replaced = stream.replaced
        if self.lines and len(stream.lines) > new:
            line = stream.lines[-new - 1]
            if line.offset == self.lines[-1].offset and line != self.lines[-1]:
                self._drop_last()
                self._append([line])

    def _drop_last(self) -> None:
        self.lines.pop()
        self.times.pop()
        self.touched = (self.touched[0] + 1, self.end)

    def _append(self, lines: Iterable[LogLine]) -> None:
        last = self.times[-1] if self.times else UNKNOWN
        for line in lines:
            last = line_time(line, last)
            self.lines.append(line)
            self.times.append(last)

    def _let_go(self, count: int) -> None:
        del self.lines[:count]
        del self.times[:count]
        self.base += count
        self.at_start = False
        for number in [number for number in self.seams if number < self.base]:
            del self.seams[number]

    def _replace(self, lines: list[LogLine]) -> None:
        self.base = self.end
        self.epoch += 1
        self.lines, self.times = [], []
        self.seams.clear()
        self.at_start = self.at_end = self.live = False
        self._append(lines)

    def _torn(self) -> bool:
        """What is above a seam is in no file any more, so pages cannot be counted from its offsets."""
        return bool(self.seams)

    def _ask(
        self,
        where: str,
        *,
        offset: int | None = None,
        time: float | None = None,
        before: int = 0,
        after: int = 0,
    ) -> None:
        stream = self._asker.read_lines(
            self.source.node, self.source.file, offset=offset, time=time, before=before, after=after
        )
        self._read = _Read(stream, where, time, offset)

    def _forget_read(self) -> None:
        if self._read is not None:
            self._asker.drop(self._read.stream)
            self._read = None

    def _take_page(self, read: _Read) -> None:
        self._read = None
        stream, lines = read.stream, list(read.stream.lines)
        self._asker.drop(stream)
        self.error = stream.error or ""
        self.size = stream.size if stream.size is not None else self.size
        if stream.error:
            self.at_start = self.at_start or read.where == "earlier"
            self.at_end = self.at_end or read.where == "later"
        elif read.where == "earlier":
            self._put_before(lines)
        elif read.where == "later":
            self._append(lines)
            self._meet_tail(reached_end=len(lines) < self._page)
            if len(self.lines) > self._kept + SLACK:
                self._let_go(len(self.lines) - self._kept)
        else:
            self._replace(lines)
            self.at_start = not lines or lines[0].offset == 0
            self._meet_tail(reached_end=bool(lines) and stream.size == lines[-1].end)
            self._aim(read)

    def _aim(self, read: _Read) -> None:
        if not self.lines:
            return
        if read.offset is not None:
            found = self.at_offset(read.offset)
            self.target = self.end - 1 if found is None else found
        elif read.time is not None:
            self.target = self.at_time(read.time - self.offset_s)

    def _put_before(self, lines: list[LogLine]) -> None:
        first = self.lines[0].offset if self.lines else None
        lines = [line for line in lines if first is None or line.offset < first]
        self.at_start = len(lines) < self._page or lines[0].offset == 0
        last, times = UNKNOWN, []
        for line in lines:
            last = line_time(line, last)
            times.append(last)
        ceiling = self.times[0] if self.times else UNKNOWN
        if ceiling != UNKNOWN:
            times = [min(time, ceiling) for time in times]
        self.lines[:0], self.times[:0] = lines, times
        self.base -= len(lines)
        if len(self.lines) > self._kept + SLACK:  # the far end goes
            del self.lines[self._kept :]
            del self.times[self._kept :]
            self.live = self.at_end = False
            self.touched = (self.touched[0] + 1, self.end)

    def _meet_tail(self, *, reached_end: bool) -> None:
        """Where the pages have come to the lines that the tail holds, the buffer grows with it again."""
        stream, here = self._tail, self.lines[-1].end if self.lines else None
        if stream is None or here is None or not stream.lines:
            self.at_end = reached_end
            return
        newer = [index for index, line in enumerate(stream.lines) if line.offset >= here]
        if stream.lines[0].offset <= here or (newer and newer[0] > 0):
            self._append(islice(stream.lines, newer[0] if newer else len(stream.lines), None))
            self._taken, self._seams_taken, self.live = stream.came, len(stream.seams), True
