"""The screen lines of a log pane, with everything that painting needs, independent of the feed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from msgspec import Struct

from gpuwatch.tui.logs.data.folding import Fold
from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.tui.logs.data.viewport import ScreenRow, View
from gpuwatch.tui.logs.search.bookmarks import Key
from gpuwatch.tui.logs.workspace.workspace import LogWorkspace
from gpuwatch.wire import LogLine, Severity


class ShownLine(Struct, frozen=True):
    """One screen line with everything that its painting needs.

    A pane stores these instead of row and line numbers: between two frames pages arrive, files rotate and
    panes get other files, so an old number may mean another line, or none.
    """

    spot: ScreenRow
    fold: Fold
    line: LogLine
    """The displayed line of the row."""
    at: float
    """Time when the line was written, on our clock (unix seconds)."""
    source: LogSource
    seam: str | None
    found: Severity | None
    """The severity of the findings in the row."""
    bookmarked: bool
    wanted: bool
    """True for the line that was jumped to."""
    here: bool
    """True if the cursor is on it."""


def shown_lines(view: View, workspace: LogWorkspace, width: int, height: int) -> Iterator[ShownLine]:
    """Yield the screen lines of a view, at most `height`; the view must be up to date with its feed."""
    feed, index = view.feed, view.index
    for spot in view.layout(width, height):
        fold = view.sheet.rows[spot.row]
        place, line = feed.place(fold.key), feed.line(fold.key)
        key: Key = (place[0].node, place[0].file, line.offset)
        yield ShownLine(
            spot=spot,
            fold=replace(fold),
            line=line,
            at=feed.time(fold.key),
            source=place[0],
            seam=feed.seams.get(fold.first),
            found=workspace.marked.severity(feed, fold),
            bookmarked=not spot.ruled and workspace.bookmarks.holds(key, line.text),
            wanted=not spot.ruled and (place == view.marked or key == workspace.led_to),
            here=not spot.ruled and spot.row == index,
        )
