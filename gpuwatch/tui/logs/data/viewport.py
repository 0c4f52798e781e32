"""The viewport of a log pane: its cursor, its position in the feed, and the layout of its screen lines."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from rich.cells import chop_cells

from gpuwatch.tui.logs.data.buffer import Buffer
from gpuwatch.tui.logs.data.folding import Fold
from gpuwatch.tui.logs.data.line_window import UNKNOWN
from gpuwatch.tui.logs.data.merge import Merge
from gpuwatch.tui.logs.data.rows import RowModel
from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.tui.toolkit.styles import clean
from gpuwatch.wire import LogLine


class ScreenRow(Struct, frozen=True):
    """One screen line: a piece of a row, the rule above it, or the line below it."""

    row: int
    piece: int
    text: str
    ruled: bool = False
    """True for the rule above a row, which is not part of it."""
    below: bool = False
    """True for the line below the message of a row, with its ranks; `text` is empty."""


def pieces(text: str, width: int) -> list[str]:
    """Return the text without control characters, cut into pieces of `width` cells."""
    text = clean(text)
    if width <= 0 or (len(text) <= width and text.isascii()):
        return [text]
    if text.isascii():
        return [text[i : i + width] for i in range(0, len(text), width)]
    return chop_cells(text, width) or [""]


class View:
    """The state of a log pane: rows of a feed, cursor, scrolling and jumps. It needs no screen."""

    def __init__(self, feed: Buffer | Merge) -> None:
        self.feed = feed
        self.sheet = RowModel()
        self.sheet.across = isinstance(feed, Merge)
        self.following = True
        self.wrap = False
        self.left = 0
        """Number of cells scrolled off to the left."""
        self.cursor = 0
        """Number of the first line of the row under the cursor."""
        self.marked: tuple[LogSource, int] | None = None
        """The line that was jumped to, which stays highlighted."""
        self.aim: tuple[LogSource, int] | None = None
        """File and offset of the line that a merged view jumps to once it is loaded."""
        self.rule: tuple[int, str] | None = None
        """The line above which a rule is drawn, and the rule's text."""
        self.below: Callable[[Fold], bool] = lambda _row: False
        """Returns whether the ranks of a row have a line of their own below its message."""
        self._top = 0
        """Number of the first line of the topmost row."""
        self._place: tuple[LogSource, int] | None = None
        self._at = UNKNOWN
        self._epoch = -1
        self._aimed = False
        self._ruled = -1
        """The row with the rule above it in the last layout."""
        self._marking = self._leading = self._landed = False
        self.room = (80, 20)

    @property
    def merged(self) -> bool:
        """True if the view shows several files."""
        return isinstance(self.feed, Merge)

    @property
    def buffers(self) -> list[Buffer]:
        """The buffers of the view's files."""
        return self.feed.buffers if isinstance(self.feed, Merge) else [self.feed]

    # ---- keeping up

    def sync(self) -> bool:
        """Update rows and cursor from the feed.

        Returns True if the view has reached the line of a jump that the other panes follow.
        """
        self.catch_up()
        landed, self._landed = self._landed, False
        return landed

    def catch_up(self) -> None:
        """Update the rows before they are read: the feed may have changed between two frames."""
        feed = self.feed
        feed.held = not self.following
        if isinstance(feed, Merge):
            feed.sync()
        self.sheet.sync(feed)
        if feed.epoch != self._epoch:
            self._epoch = feed.epoch
            self._find_again()
        if self.aim is not None and isinstance(feed, Merge):
            number = feed.number_of(*self.aim)
            if number is not None:
                self.land(number)
                self.aim = None
        if isinstance(feed, Buffer) and feed.target is not None:
            self.land(feed.target, mark=self._marking)
            feed.target, self._landed = None, self._landed or self._leading
            self._marking = self._leading = False
        self.cursor = min(max(self.cursor, feed.base), max(feed.base, feed.end - 1))
        if self.following and self.sheet.rows:
            self.cursor = self.sheet.rows[-1].first
        self._remember()

    def _find_again(self) -> None:
        """Move the cursor to its line, or else its time, after other lines replaced the old ones."""
        found = self.feed.find(self._place) if self._place else None
        if found is None and self._at != UNKNOWN:
            found = self.feed.at_time(self._at)
        if found is not None:
            self.cursor, self._aimed = found, True

    def _remember(self) -> None:
        if self.feed.base <= self.cursor < self.feed.end:
            self._place, self._at = self.feed.place(self.cursor), self.feed.time(self.cursor)

    def forget(self) -> None:
        """Rebuild the rows around the cursor, because the filter or the folding has changed."""
        self.sheet.forget()
        self._aimed = True

    # ---- where the cursor is

    @property
    def index(self) -> int:
        """The index of the row under the cursor."""
        return min(self.sheet.row_of(self.cursor), max(0, len(self.sheet.rows) - 1))

    @property
    def time(self) -> float | None:
        """Time when the cursor's line was written, on our clock (unix seconds); None if unknown."""
        return None if self._at == UNKNOWN else self._at

    def line(self) -> LogLine | None:
        """Return the line that the row under the cursor displays, with its text; None without rows."""
        self.catch_up()
        return self.shown(self.index) if self.sheet.rows else None

    def shown(self, index: int) -> LogLine:
        """Return the displayed line of a row (`Fold.key`), such as the exception of a traceback."""
        return self.feed.line(self.sheet.rows[index].key)

    def land(self, number: int, *, mark: bool = True) -> None:
        """Put the cursor on a line, in the upper third of the pane; with `mark` it stays highlighted."""
        self.following = False
        self.cursor, self._aimed = number, True
        if mark:
            self.marked = self.feed.place(number) if self.feed.base <= number < self.feed.end else None
        self._remember()

    def go(
        self, *, offset: int | None = None, at: float | None = None, mark: bool = True, lead: bool = True
    ) -> None:
        """Jump to a byte of the file, or to a time of our clock; the line may have to be loaded first.

        Args:
            offset: The byte; not for merged files.
            at: The time (unix seconds), without an offset.
            mark: The line stays highlighted.
            lead: The other panes move to its time.
        """
        self.following, self._marking, self._leading = False, mark, lead
        if isinstance(self.feed, Buffer):
            self.feed.go(offset=offset, at=at)
            return
        for buffer in self.feed.buffers:
            buffer.go(at=at)
        if at is not None:
            self._at, self._place, self._marking = at, None, False
            self.to_time(at)

    def to_time(self, at: float) -> None:
        """Move the cursor to a time of our clock (unix seconds), that of another pane's cursor."""
        self.following = False
        number = self.feed.at_time(at)
        if number != self.cursor:
            self.cursor, self._aimed = number, True
            self._remember()
        self._at = at

    def to_start(self) -> None:
        """Move to the file's first line; for merged files to the first loaded line."""
        self.following = False
        if isinstance(self.feed, Buffer) and not self.feed.at_start:
            self.go(offset=0, mark=False)
        else:
            self.feed.earlier()
            self.cursor = self.feed.base
            self._remember()

    def follow(self) -> None:
        """Follow the end of the feed."""
        self.following = True
        self.feed.held = False

    def move(self, rows: int) -> None:
        """Move the cursor by rows, downwards if positive; requests more lines before they are needed."""
        self.catch_up()
        count, self.aim = len(self.sheet.rows), None
        if not count:
            return
        index = self.index + rows
        if rows > 0 and index >= count - 1 and self.feed.live:
            self.follow()
        elif rows < 0:
            self.following = False
        index = min(max(0, index), count - 1)
        self.cursor = self.sheet.rows[index].first
        self._remember()
        margin = 3 * self.room[1]
        if rows < 0 and index < margin:
            self.feed.earlier()
        elif rows > 0 and count - index < margin:
            self.feed.later()

    def put_on(self, number: int) -> None:
        """Move the cursor to the row that holds the line with this number."""
        self.catch_up()
        self.move(self.sheet.row_of(number) - self.index)

    def unfold(self) -> bool:
        """Unfold the row under the cursor, or fold it again; return False if it has a single line.

        A view that follows the end first keeps its place, so that lines that have just arrived are not
        unfolded. It then follows again only if nothing was unfolded and it shows a single file.
        """
        following, self.following = self.following, False
        self.catch_up()
        unfolded = bool(self.sheet.rows) and self.sheet.unfold(self.index)
        self.following = following and not (unfolded or self.merged)
        return unfolded

    # ---- what stands where

    def layout(self, width: int, height: int) -> list[ScreenRow]:
        """Return the screen lines from top to bottom, at most `height`, for text of `width` cells."""
        self.room = (width, height)
        rows = self.sheet.rows
        self._ruled = -1 if self.rule is None else self.sheet.row_of(self.rule[0])
        if not rows or height <= 0:
            return []
        top = self._first_row(width, height)
        self._top = rows[top].first
        spots: list[ScreenRow] = []
        for index in range(top, len(rows)):
            spots += self._spots(index, width)
            if len(spots) >= height:
                break
        if self.following and len(spots) > height:
            spots = spots[-height:]
        return spots[:height]

    def _spots(self, index: int, width: int) -> list[ScreenRow]:
        text = self.shown(index).text
        rule = [ScreenRow(index, 0, self.rule[1], ruled=True)] if self.rule and index == self._ruled else []
        own = pieces(text, width) if self.wrap else [text]
        below = [ScreenRow(index, len(own), "", below=True)] if self.below(self.sheet.rows[index]) else []
        return [*rule, *(ScreenRow(index, n, piece) for n, piece in enumerate(own)), *below]

    def _lines_of(self, index: int, width: int) -> int:
        own = len(pieces(self.shown(index).text, width)) if self.wrap else 1
        return own + (index == self._ruled) + self.below(self.sheet.rows[index])

    def _first_row(self, width: int, height: int) -> int:
        index, count = self.index, len(self.sheet.rows)
        if self.following:
            return self._up_from(count - 1, width, height, cut=True)
        if self._aimed:
            self._aimed = False
            return self._up_from(index, width, max(1, height // 3))
        top = min(self.sheet.row_of(self._top), count - 1)
        top = index if index < top else max(top, self._up_from(index, width, height))
        return min(top, self._up_from(count - 1, width, height))

    def _up_from(self, index: int, width: int, height: int, *, cut: bool = False) -> int:
        """Return the topmost row so that the rows from it to `index` fill `height` lines.

        `cut`: the topmost row may be cut off at its top.
        """
        used = self._lines_of(index, width)
        while index > 0 and used < height:
            used += self._lines_of(index - 1, width)
            if used > height and not cut:
                break
            index -= 1
        return index
