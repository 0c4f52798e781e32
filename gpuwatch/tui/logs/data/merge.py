"""Several files as one, ordered by time on our clock (each node's clock offset is subtracted)."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import islice
from typing import TypeAlias

from gpuwatch.tui.logs.data.buffer import Buffer
from gpuwatch.tui.logs.data.line_window import SLACK_LINES, UNKNOWN
from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.wire import LogLine

MAX_LINES = 40_000
MOVED_S = 0.05
"""All lines are sorted again if a new estimate of a clock offset differs by at least this many seconds."""

Entry: TypeAlias = "tuple[float, int, int, LogLine]"
"""(time, buffer index, the line's number there, the line).

The first three values are unique, so that sorting never compares lines.
"""


class Merge:
    """A feed over several buffers. A period that one of them has not loaded is left out of all."""

    def __init__(self, buffers: Sequence[Buffer], *, kept: int = MAX_LINES) -> None:
        self.buffers = list(buffers)
        self.base = 0
        self.epoch = 0
        self.touched = (0, 0)
        self.seams: dict[int, str] = {}
        self._held = False
        self._kept = kept
        self._entries: list[Entry] = []
        self._known: list[tuple[int, int, int, float]] = []
        """For each buffer: epoch, base, end, clock offset, as they were merged."""
        self._touched: list[int] = []
        self._since = UNKNOWN

    @property
    def held(self) -> bool:
        """True if the user has scrolled back: the oldest lines of no file may be dropped."""
        return self._held

    @held.setter
    def held(self, held: bool) -> None:
        self._held = held
        for buffer in self.buffers:
            buffer.held = held

    @property
    def end(self) -> int:
        """The number after the last line."""
        return self.base + len(self._entries)

    @property
    def live(self) -> bool:
        """True if any of its files is followed."""
        return any(buffer.live for buffer in self.buffers)

    @property
    def reading(self) -> str:
        """The page that the first busy buffer is reading.

        `earlier`, `later`, `there` (at the place gone to), `end` (the first), or "" for none.
        """
        return next((buffer.reading for buffer in self.buffers if buffer.reading), "")

    @property
    def waiting(self) -> int:
        """Number of lines received at the files' ends and not loaded."""
        return sum(buffer.waiting for buffer in self.buffers)

    def line(self, number: int) -> LogLine:
        """Return the line with this number, which must be loaded (not checked)."""
        return self._entries[number - self.base][3]

    def source_of(self, number: int) -> LogSource:
        """Return the source of a loaded line."""
        return self.buffers[self._entries[number - self.base][1]].source

    def time(self, number: int) -> float:
        """Return a loaded line's time on our clock (unix seconds)."""
        return self._entries[number - self.base][0]

    def place(self, number: int) -> tuple[LogSource, int]:
        """Return the identity of a line among those of all files: source, and number in its file's buffer."""
        _, index, own, _ = self._entries[number - self.base]
        return self.buffers[index].source, own

    def find(self, place: tuple[LogSource, int]) -> int | None:
        """Return the number of the line with this `place`; None if it is not loaded."""
        for index, buffer in enumerate(self.buffers):
            if buffer.source == place[0] and buffer.base <= place[1] < buffer.end:
                key = (buffer.time(place[1]), index, place[1])
                at = bisect_left(self._entries, key, key=lambda entry: entry[:3])
                if at < len(self._entries) and self._entries[at][:3] == key:
                    return self.base + at
        return None

    def number_of(self, source: LogSource, offset: int) -> int | None:
        """Return the number of the line that contains a byte of a file; None if it is not loaded."""
        own = next((buffer.at_offset(offset) for buffer in self.buffers if buffer.source == source), None)
        return None if own is None else self.find((source, own))

    def at_time(self, at: float) -> int:
        """Return the number of the first line not older than `at` (unix seconds, our clock), or the last."""
        index = bisect_left(self._entries, at, key=lambda entry: entry[0])
        return min(self.base + index, max(self.base, self.end - 1))

    def earlier(self) -> None:
        """Request earlier pages of the files that limit how far back the merged view reaches."""
        for buffer in self.buffers:
            if buffer.lines and not buffer.at_start and buffer.time(buffer.base) >= self._since - 1.0:
                buffer.earlier()

    def later(self) -> None:
        """Request later pages of the files that end first."""
        ends = [b.time(b.end - 1) for b in self.buffers if b.lines and not (b.live or b.at_end)]
        for buffer in self.buffers:
            if buffer.lines and ends and buffer.time(buffer.end - 1) <= min(ends) + 1.0:
                buffer.later()

    def sync(self) -> None:
        """Merge what the buffers have received since the last call."""
        known = [(b.epoch, b.base, b.end, b.offset_s) for b in self.buffers]
        touched = [b.touched[0] for b in self.buffers]
        if known == self._known and touched == self._touched:
            return
        if touched != self._touched or self._other(known):
            self._rebuild()
        else:
            self._take_new()
        self._known, self._touched = known, touched
        self._mark_starts()
        if len(self._entries) > self._kept + SLACK_LINES and not self.held:
            gone = len(self._entries) - self._kept
            del self._entries[:gone]
            self.base += gone

    def _other(self, known: list[tuple[int, int, int, float]]) -> bool:
        if len(known) != len(self._known):
            return True
        return any(
            new[0] != old[0] or new[1] < old[1] or abs(new[3] - old[3]) > MOVED_S or old[2] == old[1] < new[2]
            for new, old in zip(known, self._known, strict=True)
        )

    def _rebuild(self) -> None:
        loaded = [buffer for buffer in self.buffers if buffer.lines]
        first = [b.time(b.base) for b in loaded if not b.at_start]
        last = [b.time(b.end - 1) for b in loaded if not (b.live or b.at_end)]
        # a window beyond all of another file hides none of it: its clock may be wrong
        newest = min((b.time(b.end - 1) for b in loaded), default=UNKNOWN)
        oldest = max((b.time(b.base) for b in loaded), default=UNKNOWN)
        self._since = max((at for at in first if at <= newest), default=UNKNOWN)
        until = min((at for at in last if at >= oldest), default=float("inf"))
        if until < self._since:  # windows that do not meet: all there is, rather than nothing
            self._since, until = UNKNOWN, float("inf")
        entries: list[Entry] = []
        for index, buffer in enumerate(self.buffers):
            offset, base = buffer.offset_s, buffer.base
            low = bisect_left(buffer.times, self._since + offset)
            ats = [at - offset for at in islice(buffer.times, low, None)]
            end = low + bisect_right(ats, until)
            indexes = itertools.repeat(index)
            lines = islice(buffer.lines, low, end)
            entries += zip(ats, indexes, range(base + low, base + end), lines, strict=False)
        entries.sort()
        self.base, self._entries = self.end, entries
        self.epoch += 1

    def _mark_starts(self) -> None:
        """Update `seams` with notes about files whose earlier lines are not loaded.

        The key is the number of the first loaded line of the file.
        """
        self.seams.clear()
        for buffer in self.buffers:
            if buffer.lines and not buffer.at_start and buffer.time(buffer.base) > self._since:
                number = self.find((buffer.source, buffer.base))
                if number is not None and number > self.base:
                    self.seams[number] = f"{buffer.source.name}: earlier lines not loaded"

    def _take_new(self) -> None:
        new: list[Entry] = []
        for index, (buffer, old) in enumerate(zip(self.buffers, self._known, strict=True)):
            start = max(old[2], buffer.base)
            times = islice(buffer.times, start - buffer.base, None)
            lines = islice(buffer.lines, start - buffer.base, None)
            new += [
                (at - buffer.offset_s, index, start + i, line)
                for i, (at, line) in enumerate(zip(times, lines, strict=True))
            ]
        new.sort()
        if not new:
            return
        cut = bisect_left(self._entries, new[0][:3], key=lambda entry: entry[:3])
        if cut < len(self._entries):  # another node's tick brought older lines
            new = sorted([*self._entries[cut:], *new])
            del self._entries[cut:]
            self.touched = (self.touched[0] + 1, self.end)
        self._entries += new
