"""The grid of log panes, in as many columns and rows as fit."""

from __future__ import annotations

from textual.containers import Grid

from gpuwatch.tui.logs.widgets.pane import LogPane
from gpuwatch.tui.logs.workspace.workspace import MAX_PANES, LogWorkspace

MIN_WIDTH, MIN_HEIGHT = 48, 7
"""Minimum size of a pane, if there are several."""


def grid_for(wanted: int, width: int, height: int) -> tuple[int, int]:
    """Return (columns, rows) for `wanted` panes, or for as many as have the minimum size in this space.

    At most `MAX_PANES`.
    """
    most_columns, most_rows = max(1, width // MIN_WIDTH), max(1, height // MIN_HEIGHT)
    wanted = max(1, min(wanted, most_columns * most_rows, MAX_PANES))
    return min(
        ((c, -(-wanted // c)) for c in range(1, most_columns + 1) if -(-wanted // c) <= most_rows),
        key=lambda shape: (
            shape[0] * shape[1] - wanted,
            abs(width / shape[0] - 5 * height / shape[1]),
            shape[0],
        ),
    )


class LogGrid(Grid):
    """The widget with all possible log panes; unused ones are hidden, and one may be shown alone."""

    def __init__(self, workspace: LogWorkspace) -> None:
        self.panes = [LogPane(workspace, id=f"log-{n}") for n in range(MAX_PANES)]
        super().__init__(*self.panes, id="log-grid")
        self.workspace = workspace
        self.zoomed = False
        self.shown = 0
        """Number of logs with a pane."""
        self.room = 1
        """Number of panes in the grid of the last layout."""

    def one_by_one(self, width: int, height: int, focused: object) -> None:
        """Assign each selected log to a pane, as many as fit; if zoomed, show only the focused pane."""
        columns, rows = grid_for(len(self.workspace.sources), width, height)
        self.room = columns * rows
        sources = self.workspace.panes(self.room)
        self.shown = len(sources)
        for pane, source in zip(self.panes, sources, strict=False):
            pane.view = self.workspace.opened.view_of(source)
        if not sources:
            self.panes[0].view = None
        self._lay_out(max(1, len(sources)), columns, rows, focused)

    def merged(self) -> None:
        """Show one pane with the lines of all logs."""
        self.panes[0].view = self.workspace.opened.merged
        self._lay_out(1, 1, 1, None)

    def _lay_out(self, count: int, columns: int, rows: int, focused: object) -> None:
        large = focused if self.zoomed and focused in self.panes[:count] else None
        if large is not None:
            columns = rows = 1
        for number, pane in enumerate(self.panes):
            wanted = number < count and (large is None or pane is large)
            if pane.display != wanted:
                pane.display = wanted
        if (self.styles.grid_size_columns, self.styles.grid_size_rows) != (columns, rows):
            self.styles.grid_size_columns, self.styles.grid_size_rows = columns, rows
