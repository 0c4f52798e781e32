"""The bookmarks: lines to which the user wants to return."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from gpuwatch.tui.logs.data.line_window import UNKNOWN
from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.tui.logs.data.viewport import View
from gpuwatch.tui.logs.search.bookmark_file import BookmarkFile, KeptBookmark
from gpuwatch.wire import LogLine

Key: TypeAlias = "tuple[str, str, int]"
"""(node, file, byte): identifies a line however often it is read."""


class Bookmark(Struct, frozen=True):
    """A bookmarked line."""

    source: LogSource
    line: LogLine
    at: float
    earlier: bool = False
    """True if it was set in an earlier session: its file may have been replaced since."""

    @property
    def key(self) -> Key:
        """The identity of the bookmarked line: (node, file, byte)."""
        return self.source.node, self.source.file, self.line.offset


class Bookmarks:
    """The bookmarks of this session and earlier ones; `version` increases with every change."""

    def __init__(
        self, file: BookmarkFile | None = None, is_here: Callable[[LogSource], bool] = lambda _source: True
    ) -> None:
        """Load the bookmarks of earlier sessions.

        Args:
            file: Where they are saved; None: nowhere.
            is_here: Returns whether a file belongs to this session; the bookmarks of others are not shown.
        """
        self.version = 0
        self._is_here = is_here
        self._file = file
        kept = file.read() if file else ()
        marks = [Bookmark(each.source, each.line, each.time, earlier=True) for each in kept]
        self._marks: dict[Key, Bookmark] = {mark.key: mark for mark in marks}

    def __len__(self) -> int:
        return len(self.in_order())

    @property
    def trouble(self) -> str | None:
        """Why bookmarks are not saved for later sessions; None if they are, or there is no file."""
        return self._file.trouble if self._file else None

    def holds(self, key: Key, text: str) -> bool:
        """Return True if the line with this key and text is bookmarked.

        A bookmark of an earlier session counts only if the text is the same: the file may have been replaced.
        """
        mark = self._marks.get(key)
        return mark is not None and (not mark.earlier or mark.line.text == text)

    def toggle(self, view: View) -> None:
        """Set a bookmark on the line under a view's cursor, or remove it, and save the change."""
        line = view.line()
        if line is None:
            return
        source = view.feed.place(view.cursor)[0]
        mark = Bookmark(source, line, UNKNOWN if view.time is None else view.time)
        if self.holds(mark.key, line.text):
            del self._marks[mark.key]
        else:
            self._marks[mark.key] = mark
        self.version += 1
        if self._file is not None:
            self._file.change(lambda kept: self._edit(kept, mark))

    def _edit(self, kept: list[KeptBookmark], changed: Bookmark) -> None:
        kept[:] = [each for each in kept if (each.node, each.file, each.offset) != changed.key]
        if changed.key in self._marks:
            place, line = changed.source, changed.line
            at = None if changed.at == UNKNOWN else changed.at
            kept.append(KeptBookmark(*changed.key, line.text, at, rank=place.rank, level=line.level))

    def in_order(self) -> list[Bookmark]:
        """Return the bookmarks of this session's files by time."""
        marks = [mark for mark in self._marks.values() if not mark.earlier or self._is_here(mark.source)]
        return sorted(marks, key=lambda mark: (mark.at, mark.key))

    def beside(self, at: float, step: int) -> Bookmark | None:
        """Return the next (1) or previous (-1) bookmark by time, wrapping around; None if there are none."""
        marks = self.in_order()
        beyond = [mark for mark in marks if (mark.at > at if step > 0 else mark.at < at)]
        return (beyond or marks)[0 if step > 0 else -1] if marks else None
