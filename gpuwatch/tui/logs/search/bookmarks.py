"""Bookmarks: lines that the person wants to come back to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gpuwatch.tui.logs.data.line_window import UNKNOWN
from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.tui.logs.data.viewport import View
from gpuwatch.wire import LogLine

Key: TypeAlias = "tuple[str, str, int]"
"""Node, file and byte: what stays a line's own however often it is read."""


@dataclass(frozen=True)
class Bookmark:
    """A line that the person wants to come back to."""

    source: LogSource
    line: LogLine
    at: float

    @property
    def key(self) -> Key:
        """What it is known by."""
        return self.source.node, self.source.file, self.line.offset


class Bookmarks:
    """All of them; `version` moves when one comes or goes."""

    def __init__(self) -> None:
        self.version = 0
        self._marks: dict[Key, Bookmark] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def __contains__(self, key: Key) -> bool:
        return key in self._marks

    def toggle(self, view: View) -> None:
        """Set one on the cursor's line, or take it away."""
        line = view.line()
        if line is None:
            return
        source = view.feed.place(view.cursor)[0]
        mark = Bookmark(source, line, UNKNOWN if view.time is None else view.time)
        if self._marks.pop(mark.key, None) is None:
            self._marks[mark.key] = mark
        self.version += 1

    def in_order(self) -> list[Bookmark]:
        """All of them, in the order of time."""
        return sorted(self._marks.values(), key=lambda mark: (mark.at, mark.key))

    def beside(self, at: float, step: int) -> Bookmark | None:
        """The next (1) or previous (-1) one by time; behind the last one comes the first."""
        marks = self.in_order()
        beyond = [mark for mark in marks if (mark.at > at if step > 0 else mark.at < at)]
        return (beyond or marks)[0 if step > 0 else -1] if marks else None
