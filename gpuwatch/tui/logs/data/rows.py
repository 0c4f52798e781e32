"""The rows of a pane: the lines of a feed, filtered and folded."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Protocol

from gpuwatch.tui.logs.data.folding import Fold, Folder
from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.wire import LogLine


class Feed(Protocol):
    """Lines in an order, counted by numbers that stay theirs: one file's, or several files' merged."""

    base: int
    """The number of the first one loaded."""
    epoch: int
    """Moves when other lines took their place."""
    touched: tuple[int, int]
    """How often loaded lines changed in place, and from which number on the last time."""
    seams: dict[int, str]
    """Number of the first line after it -> what happened to the file."""
    held: bool
    """The person has scrolled back: the oldest lines may not go."""

    @property
    def live(self) -> bool:
        """Whether it grows at its end."""
        ...

    @property
    def end(self) -> int:
        """The number after the last line."""
        ...

    @property
    def reading(self) -> str:
        """Which page is on its way: earlier, later, there, or none."""
        ...

    @property
    def waiting(self) -> int:
        """Lines that came at the end and are not loaded."""
        ...

    def line(self, number: int) -> LogLine:
        """A loaded line."""
        ...

    def source_of(self, number: int) -> LogSource:
        """Whose line it is."""
        ...

    def time(self, number: int) -> float:
        """When, on our clock; minus infinity where nothing tells."""
        ...

    def place(self, number: int) -> tuple[LogSource, int]:
        """What tells a line from all others."""
        ...

    def find(self, place: tuple[LogSource, int]) -> int | None:
        """The number of a line that `place` told; None: it is not here."""
        ...

    def at_time(self, at: float) -> int:
        """The first loaded line that is not older than a time of our clock."""
        ...

    def earlier(self) -> None:
        """Read what is before."""
        ...

    def later(self) -> None:
        """Read what is behind."""
        ...


class Sheet:
    """The rows of a feed, kept up with it: only what is new is filtered and folded."""

    def __init__(self) -> None:
        self.rows: list[Fold] = []
        self.folding = True
        self.keep: re.Pattern[str] | None = None
        self.without: re.Pattern[str] | None = None
        self.only_rank: int | None = None
        """Lines that another rank's prefix begins are left out."""
        self.version = 0
        self._seen: tuple[int, int] = (-1, 0)
        self._from = 0
        self._upto = 0
        self._folder = Folder(self.rows)
        self._speaks = True

    def forget(self) -> None:
        """Make everything anew: the filter or the folding is another one."""
        self._seen = (-1, 0)

    def sync(self, feed: Feed) -> bool:
        """Bring the rows up to date; True when they moved."""
        seen = (feed.epoch, feed.touched[0])
        if seen != self._seen:
            self._catch_up(feed, seen)
        moved = False
        if feed.base < self._from:
            self._prepend(feed)
            moved = True
        elif feed.base > self._from:
            self._drop_front(feed.base)
            moved = True
        if self._upto < feed.end:
            for number in range(self._upto, feed.end):
                self._add(self._folder, number, feed)
            self._upto, moved = feed.end, True
        self.version += moved
        return moved

    def _catch_up(self, feed: Feed, seen: tuple[int, int]) -> None:
        once = seen[0] == self._seen[0] and seen[1] == self._seen[1] + 1
        self._seen = seen
        self.version += 1
        changed = feed.touched[1]
        if once and self.rows and self.rows[0].last < changed:
            cut = self.row_of(changed)
            if cut > 0:  # the row before might take the new lines in
                cut -= 1
            self._upto = max(self._from, min(self._upto, self.rows[cut].first))
            del self.rows[cut:]
        else:
            self.rows.clear()
            self._from = self._upto = feed.base
        self._folder = Folder(self.rows, folding=self.folding)

    def _prepend(self, feed: Feed) -> None:
        rows: list[Fold] = []
        folder = Folder(rows, folding=self.folding)
        for number in range(feed.base, self._from):
            self._add(folder, number, feed)
        self.rows[:0] = rows
        self._from = feed.base

    def _drop_front(self, base: int) -> None:
        gone = 0
        while gone < len(self.rows) and self.rows[gone].last < base:
            gone += 1
        del self.rows[:gone]
        if self.rows and self.rows[0].first < base:
            self.rows[0].first = base
            self.rows[0].key = max(base, self.rows[0].key)
        self._from = base
        self._upto = max(self._upto, base)

    def _add(self, folder: Folder, number: int, feed: Feed) -> None:
        line = feed.line(number)
        if self._wanted(line):
            rank = feed.source_of(number).rank
            folder.add(number, line, line.rank if rank is None else rank, feed.time(number))

    def _wanted(self, line: LogLine) -> bool:
        if self.only_rank is not None:
            if line.rank is not None:
                self._speaks = line.rank == self.only_rank
            if not self._speaks:
                return False
        if self.keep is not None and not self.keep.search(line.text):
            return False
        return self.without is None or not self.without.search(line.text)

    # ---- rows by the numbers of their lines

    def row_of(self, number: int) -> int:
        """The index of the row that holds a line, or of the last one before it."""
        return max(0, bisect_right(self.rows, number, key=lambda row: row.first) - 1)

    def unfold(self, index: int, feed: Feed) -> bool:
        """Show every line of a row, or fold what was unfolded again; False: there is nothing to do."""
        row = self.rows[index]
        if row.fixed:
            self._fold_again(index)
        elif row.count > 1:
            wanted = [n for n in range(row.first, row.last + 1) if self._wanted(feed.line(n))]
            self.rows[index : index + 1] = [Fold(n, n, n, row.kind, fixed=True) for n in wanted]
        else:
            return False
        self.version += 1
        return True

    def _fold_again(self, index: int) -> None:
        kind, first, last = self.rows[index].kind, index, index
        while first > 0 and self.rows[first - 1].fixed and self.rows[first - 1].kind == kind:
            first -= 1
        while last + 1 < len(self.rows) and self.rows[last + 1].fixed and self.rows[last + 1].kind == kind:
            last += 1
        key = self.rows[last].key
        whole = Fold(self.rows[first].first, self.rows[last].last, key, kind, last - first + 1)
        self.rows[first : last + 1] = [whole]
