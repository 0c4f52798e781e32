"""The lines of a log pane as they were laid out: complete in themselves, whatever the feed holds by now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuwatch.tui.logs.data.folding import Fold
from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.tui.logs.data.viewport import ScreenRow, View
from gpuwatch.tui.logs.search.bookmarks import Key
from gpuwatch.tui.logs.workspace.workspace import LogWorkspace
from gpuwatch.wire import LogLine, Severity


@dataclass(frozen=True, slots=True)
class ShownLine:
    """One screen line with everything that its painting needs.

    A pane keeps these instead of row and line numbers: pages arrive, files rotate and panes get other files
    between two frames, and a number of the old rows means another line of the new ones, or none.
    """

    spot: ScreenRow
    fold: Fold
    line: LogLine
    """The line that stands for the row."""
    at: float
    """When it was written, on our clock."""
    source: LogSource
    seam: str | None
    found: Severity | None
    """What the rules found in the row."""
    bookmarked: bool
    wanted: bool
    """The line that was gone to."""
    here: bool
    """The cursor is on it."""


def shown_lines(view: View, workspace: LogWorkspace, width: int, height: int) -> Iterator[ShownLine]:
    """Lay a view out that is up to date with its feed."""
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
