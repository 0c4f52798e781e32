"""The widget with the table of nodes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.tui.fleet.node_columns import COLUMNS, OF_LOGS, SORTS, NodeColumn, choose
from gpuwatch.tui.fleet.node_filter import Shown
from gpuwatch.tui.model.alert_snapshot import AlertSnapshot
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.toolkit.rows import Row, highlighted, text_of
from gpuwatch.tui.toolkit.selectable_lines import SortableTable
from gpuwatch.tui.toolkit.styles import clean, fit


class NodeTable(SortableTable):
    """The table with a line per node. The cursor stays on its node when the order changes."""

    DEFAULT_CSS: ClassVar[str] = "NodeTable { height: 1fr; min-height: 3; }"
    pinned = 1
    table = "nodes"
    falling_columns = frozenset(column.name for column in COLUMNS if column.falling)

    def __init__(self, shown: Shown) -> None:
        super().__init__(id="nodes")
        self.shown = shown
        self.views: list[NodeView] = []
        self._columns: list[tuple[NodeColumn, int]] = []
        self._columns_key: Hashable = None
        """The columns and the width of a line, on which every line depends."""
        self._chosen_for: object = None
        self._node = ""
        self._worst: dict[str, Alert] = {}
        """For nodes known only from logs: node -> its worst alert."""
        self._worst_for: AlertSnapshot | None = None

    def prepare(self) -> None:
        now, views = self.view_state.now, self.shown.views
        if self.sort_name:
            column = next(c for c in COLUMNS if c.name == self.sort_name)
            views = sorted(views, key=lambda view: column.sort(view, now), reverse=self.falling)
        self.views = views
        of_logs = self.view_state.folder is not None
        wanted = OF_LOGS if of_logs else self.cockpit.preferences.columns.get("nodes", ())
        if of_logs and self._worst_for is not self.view_state.snapshot:
            self._worst_for = self.view_state.snapshot
            self._worst = self._worst_for.worst_by_node()
        if (self.shown.names, self.columns, wanted) != self._chosen_for:
            self._chosen_for = self.shown.names, self.columns, wanted
            names = max((cell_len(clean(name)) for name in self.shown.names), default=4)
            self._columns = choose(self.columns, min(24, max(6, names)), wanted)
            self._columns_key = tuple(column.name for column, _ in self._columns), self.columns
        self.at = max(0, min(self.at, len(views) - 1))
        if views and views[self.at].name != self._node:
            self.at = next((index for index, view in enumerate(views) if view.name == self._node), self.at)

    def count(self) -> int:
        return 1 + len(self.views)

    def key(self, line: int) -> Hashable:
        columns = self._columns_key
        if line == 0:
            return (columns, self.sort_name, self.falling, self.shown.version, len(self.views))
        view = self.views[line - 1]
        age = view.node.age(self.view_state.now)
        stamp = None if age is None else int(age * 2) if age < 10 else int(age)
        here = line - 1 == self.at
        return (
            columns,
            view.name,
            view.node.version,
            view.severity,
            view.trouble,
            id(self._worst.get(view.name)),
            stamp,
            here and (1, self.has_focus),
        )

    def row(self, line: int, width: int) -> Row:
        if line == 0:
            return self._heading()
        view, look, now = self.views[line - 1], self.look, self.view_state.now
        alert = self._worst.get(view.name)
        parts = [look.mark(view.severity if alert is None else alert.severity), Segment(" ")]
        for column, cells in self._columns:
            text, severity = column.cell(view, now)
            if column.name == "trouble" and alert is not None:
                text, severity = alert_words(alert), alert.severity
            style = look.severity[severity] if severity else look.text
            if view.state != "live" and column.name not in ("node", "state", "age", "trouble"):
                style = look.stale
            parts.append(Segment(fit(text, cells, ">" if column.right else "<") + " ", style))
        row = tuple(parts)
        if line - 1 != self.at:
            return row
        if self.has_focus:
            return highlighted(row, width, look.cursor)
        return (row[0], Segment(look.glyphs.cursor, look.title), *row[2:])

    def _heading(self) -> Row:
        look = self.look
        parts = [Segment("  ")]
        for column, cells in self._columns:
            chosen = column.name == self.sort_name
            arrow = (look.glyphs.down if self.falling else look.glyphs.up) if chosen else ""
            title = fit(arrow + column.title, cells, ">" if column.right else "<") + " "
            parts.append(Segment(title, look.title if chosen else look.dim))
        return tuple(parts)

    def chosen(self) -> NodeView | None:
        return self.views[self.at] if self.at < len(self.views) else None

    def go(self, item: int) -> None:
        """Move the cursor to a line and remember its node."""
        item = max(0, min(item, len(self.views) - 1))
        self._node = self.views[item].name if self.views else ""
        super().go(item)

    def go_to_node(self, name: str) -> None:
        """Move the cursor to the node of this name, if it is listed."""
        for index, view in enumerate(self.views):
            if view.name == name and index != self.at:
                self.go(index)

    def sort_next(self) -> None:
        """Sort by the next visible column; after the last one, in the plan's order."""
        at = SORTS.index(self.sort_name) + 1 if self.sort_name else 0
        visible = [c.name for c, _ in self._columns]
        self.sort_by(next((name for name in SORTS[at:] if name in visible), ""))

    def click_title(self, x: int) -> None:
        left = 2
        for column, cells in self._columns:
            if left <= x <= left + cells and column.name in SORTS:
                self.sort_by(column.name)
            left += cells + 1

    def copy_text(self) -> str:
        return text_of(self.row(self.at + 1, self.columns)) if self.views else ""


def alert_words(alert: Alert) -> str:
    """Return an alert in short: `rank 17: CUDA out of memory`."""
    rank = "" if alert.rank is None else f"rank {alert.rank}: "
    return clean(f"{rank}{alert.title}")
