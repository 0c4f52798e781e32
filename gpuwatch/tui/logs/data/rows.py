"""The rows of a log pane: the lines of a feed, filtered and folded."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.rules.compiling.typed_pattern import TypedPattern
from gpuwatch.tui.logs.data.folding import TRACE, Fold, Folder
from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.wire import LogLine, Severity

Floor: TypeAlias = Literal["warning", "error"]


class Feed(Protocol):
    """Ordered lines with fixed numbers: of one file, or of several files merged."""

    base: int
    """The number of the first loaded line."""
    epoch: int
    """Increases when other lines replace them."""
    touched: tuple[int, int]
    """(number of changes of loaded lines in place, number of the first line in the last change)."""
    seams: dict[int, str]
    """Number of the first line after it -> what happened to the file."""
    held: bool
    """True if the user has scrolled back: the oldest lines must not be dropped."""

    @property
    def live(self) -> bool:
        """True if the end is loaded and new lines are added."""
        ...

    @property
    def end(self) -> int:
        """The number after the last line."""
        ...

    @property
    def reading(self) -> str:
        """The page being read: `earlier`, `later`, `there` (a jump), `end` (the first page); "": none."""
        ...

    @property
    def waiting(self) -> int:
        """Number of lines received at the end and not loaded."""
        ...

    def line(self, number: int) -> LogLine:
        """Return the line with this number, which must be loaded."""
        ...

    def source_of(self, number: int) -> LogSource:
        """Return the source of a loaded line."""
        ...

    def time(self, number: int) -> float:
        """Return a line's time on our clock (unix seconds); minus infinity if unknown."""
        ...

    def place(self, number: int) -> tuple[LogSource, int]:
        """Return the identity of a line among those of all files: its source and number."""
        ...

    def find(self, place: tuple[LogSource, int]) -> int | None:
        """Return the number of the line with this `place`; None if it is not loaded."""
        ...

    def at_time(self, at: float) -> int:
        """Return the number of the first loaded line not older than a time of our clock, else the last."""
        ...

    def earlier(self) -> None:
        """Request the page before the loaded lines."""
        ...

    def later(self) -> None:
        """Request the page after the loaded lines."""
        ...


class RowModel:
    """The rows of a feed, updated incrementally: only new lines are filtered and folded."""

    def __init__(self) -> None:
        self.rows: list[Fold] = []
        self.folding = True
        self.keep: TypedPattern | None = None
        self.without: TypedPattern | None = None
        self.across = False
        """True if lines of several files alternate: equal ones are folded over what is between them."""
        self.floor: Floor | None = None
        """Lines below this severity are hidden, by the rules or by their own level."""
        self.found: Callable[[str, str, int], Severity | None] = lambda _node, _file, _offset: None
        """Returns the severity of the finding at a byte of a file."""
        self.only_rank: int | None = None
        """Lines whose prefix names another rank are hidden."""
        self.version = 0
        self._seen: tuple[int, int] = (-1, 0)
        self._from = 0
        self._upto = 0
        self._folder = Folder(self.rows)
        self._speaks = True
        self._kept = -1, 0
        """The version for which lines were counted, and their number."""
        self._homes: dict[int, int] = {}
        """Number of a line -> first line of its row, if other rows lie between them."""

    def forget(self) -> None:
        """Make the next `sync` rebuild all rows, because the filter or the folding has changed."""
        self._seen = (-1, 0)

    def sync(self, feed: Feed) -> bool:
        """Update the rows from the feed; return True if they have changed."""
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
            cut = self._clean_cut(max(0, self.row_of(changed) - 1))  # the row before might take them in
            self._upto = max(self._from, min(self._upto, self.rows[cut].first))
            del self.rows[cut:]
            self._homes = {number: first for number, first in self._homes.items() if number < self._upto}
        else:
            self.rows.clear()
            self._homes.clear()
            self._from = self._upto = feed.base
        self._folder = Folder(self.rows, folding=self.folding, across=self.across)
        self._folder.resume(feed.line)

    def _clean_cut(self, cut: int) -> int:
        """Return the index of a row up to `cut`: the last one that begins after all lines of earlier rows."""
        if not self.across:
            return cut
        found, reached = 0, -1
        for index, row in enumerate(self.rows[: cut + 1]):
            if reached < row.first:
                found = index
            reached = max(reached, row.last)
        return found

    def _prepend(self, feed: Feed) -> None:
        rows: list[Fold] = []
        folder = Folder(rows, folding=self.folding, across=self.across, later=self._folder)
        for number in range(feed.base, self._from):
            self._add(folder, number, feed)
        self.rows[:0] = rows
        self._from = feed.base

    def _drop_front(self, base: int) -> None:
        reached = bisect_left(self.rows, base, key=lambda row: row.first)
        trimmed = [row for row in self.rows[:reached] if row.last >= base]
        for row in trimmed:
            row.members = [number for number in row.members if number >= base]
            row.first = row.members[0] if row.members else max(base, row.first)
            row.count = max(1, len(row.members))
            row.key = max(row.first, row.key)
        self.rows[:reached] = trimmed
        self.rows.sort(key=lambda row: row.first)
        self._homes = {number: first for number, first in self._homes.items() if first >= base}
        for row in trimmed:
            self._note_homes(row)
        self._from = base
        self._upto = max(self._upto, base)

    def _add(self, folder: Folder, number: int, feed: Feed) -> None:
        line, source = feed.line(number), feed.source_of(number)
        rank = source.rank
        if self._wanted(line) and (
            self.floor is None
            or folder.continues(line.rank if rank is None else rank)
            or self._grave(line, source, self.floor)
        ):
            row = folder.add(number, line, line.rank if rank is None else rank, feed.time(number))
            if row is not folder.rows[-1]:
                self._homes[number] = row.first

    def _wanted(self, line: LogLine) -> bool:
        if self.only_rank is not None:
            if line.rank is not None:
                self._speaks = line.rank == self.only_rank
            if not self._speaks:
                return False
        if self.keep is not None and self.keep.search(line.text) is False:
            return False
        return self.without is None or not self.without.search(line.text)

    def _grave(self, line: LogLine, source: LogSource, floor: Floor) -> bool:
        found = self.found(source.node, source.file, line.offset)
        known = [severity for severity in (found, line.level) if severity is not None]
        return TRACE in line.text or any(ORDER.index(each) <= ORDER.index(floor) for each in known)

    @property
    def narrowed(self) -> bool:
        """True if a filter or a minimum severity hides lines."""
        return self.floor is not None or self.keep is not None or self.without is not None

    @property
    def kept(self) -> int:
        """The number of lines that pass the filters."""
        if self._kept[0] != self.version:
            self._kept = self.version, sum(row.count for row in self.rows)
        return self._kept[1]

    # ---- rows by the numbers of their lines

    def row_of(self, number: int) -> int:
        """Return the index of the row that holds the line with this number, else of the row before it."""
        number = self._homes.get(number, number)
        return max(0, bisect_right(self.rows, number, key=lambda row: row.first) - 1)

    def unfold(self, index: int) -> bool:
        """Split a row into one row per line, or fold these again; return False if it has a single line."""
        row = self.rows[index]
        if row.whole is not None:
            self._fold_again(row.whole)
        elif row.count > 1:
            row.fixed = True
            self._homes = {number: first for number, first in self._homes.items() if first != row.first}
            parts = [Fold(n, n, n, row.kind, fixed=True, whole=row) for n in row.members]
            self.rows[index : index + 1] = parts
            self.rows.sort(key=lambda each: each.first)
        else:
            return False
        self.version += 1
        return True

    def _fold_again(self, whole: Fold) -> None:
        parts = [row for row in self.rows if row.whole is whole]
        whole.fixed, whole.members, whole.first = False, [row.first for row in parts], parts[0].first
        self.rows[:] = [row for row in self.rows if row.whole is not whole]
        self.rows.append(whole)
        self.rows.sort(key=lambda each: each.first)
        self._note_homes(whole)

    def _note_homes(self, row: Fold) -> None:
        self._homes.update((number, row.first) for number in row.members if number != row.first)
