"""The widget with the table of nodes, or of groups of nodes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, TypeAlias

from rich.cells import cell_len
from rich.segment import Segment

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.tui.fleet.folding.groups import MAX_LISTED, NodeGroup, cell_of, worst_first
from gpuwatch.tui.fleet.node_columns import COLUMNS, OF_LOGS, SORTS, NodeColumn, choose
from gpuwatch.tui.fleet.node_filter import Shown
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.toolkit.lines.rows import Row, highlighted, text_of
from gpuwatch.tui.toolkit.lines.selectable_lines import SortableTable
from gpuwatch.tui.toolkit.styles import clean, fit

Line: TypeAlias = "NodeView | NodeGroup"
INDENT = " "
"""Indentation of a node's name under its group."""


class NodeTable(SortableTable):
    """The table with a line per node. The cursor stays on its node when the order changes.

    In a folded fleet it has a line per group, the groups with problems first, and under it at most
    `MAX_LISTED` nodes with problems or, if it is unfolded, all its nodes. A table that a column sorts is not
    folded.
    """

    DEFAULT_CSS: ClassVar[str] = "NodeTable { height: 1fr; min-height: 3; }"
    pinned = 1
    table = "nodes"
    falling_columns = frozenset(column.name for column in COLUMNS if column.falling)

    def __init__(self, shown: Shown) -> None:
        super().__init__(id="nodes")
        self.shown = shown
        self.lines: list[Line] = []
        self._unfolded: set[str] = set()
        """Names of the groups whose nodes are all listed."""
        self._columns: list[tuple[NodeColumn, int]] = []
        self._columns_key: Hashable = None
        """The columns and the width of a line, on which every line depends."""
        self._chosen_for: object = None
        self._on = ""
        """The name of the node or group under the cursor."""

    def prepare(self) -> None:
        self.lines = self._listed()
        columns = self.cockpit.preferences.columns
        of_logs = self.view_state.folder is not None
        wanted = columns.get("logs", OF_LOGS) if of_logs else columns.get("nodes", ())
        chosen_for = (self.shown.names, self.shown.folding, self.columns, wanted)
        if chosen_for != self._chosen_for:
            self._chosen_for = chosen_for
            names = max((cell_len(clean(name)) for name in self.shown.names), default=4)
            groups = max((cell_len(clean(group.name)) for group in self.shown.groups), default=0)
            names = min(24, max(6, names + len(INDENT) * bool(groups), groups))
            self._columns = choose(self.columns, names, wanted, groups=bool(groups))
            self._columns_key = tuple(column.name for column, _ in self._columns), self.columns
        lines = self.lines
        self.at = max(0, min(self.at, len(lines) - 1))
        if lines and lines[self.at].name != self._on:
            self.at = next((index for index, line in enumerate(lines) if line.name == self._on), self.at)

    @property
    def folded(self) -> bool:
        """True if lines stand for groups."""
        return self.shown.folding is not None and not self.sort_name

    def _listed(self) -> list[Line]:
        if self.folded:
            lines: list[Line] = []
            for group in worst_first(self.shown.groups):
                lines += [group, *self._under(group)]
            return lines
        if not self.sort_name:
            return [*self.shown.views]
        now = self.view_state.now
        column = next(c for c in COLUMNS if c.name == self.sort_name)
        return [*sorted(self.shown.views, key=lambda view: column.sort(view, now), reverse=self.falling)]

    def _under(self, group: NodeGroup) -> list[NodeView]:
        """Return the nodes listed under a group: all if it is unfolded, else the first with problems."""
        return group.views if group.name in self._unfolded else group.troubled[:MAX_LISTED]

    def count(self) -> int:
        return 1 + len(self.lines)

    def wanted_height(self) -> int:
        """Return the number of lines of the whole table as the nodes are now, heading included."""
        if not self.folded:
            return 1 + len(self.shown.views)
        return 1 + sum(1 + len(self._under(group)) for group in self.shown.groups)

    def key(self, line: int) -> Hashable:
        columns = self._columns_key
        if line == 0:
            return (columns, self.sort_name, self.falling, self.shown.version, len(self.lines))
        here = line - 1 == self.at
        view = self.lines[line - 1]
        if isinstance(view, NodeGroup):
            # new values of some node come in each frame: a group is painted once a second, not all at once
            second = int(self.view_state.now + line % 8 / 8)
            problems = view.severity, len(view.troubled)
            return (columns, view.name, len(view.views), problems, second, here and (1, self.has_focus))
        age = view.node.age(self.view_state.now)
        stamp = None if age is None else int(age * 2) if age < 10 else int(age)
        return (
            columns,
            view.name,
            self.folded,
            view.node.version,
            view.severity,
            view.trouble,
            id(self.shown.alert_of(view)),
            stamp,
            here and (1, self.has_focus),
        )

    def row(self, line: int, width: int) -> Row:
        if line == 0:
            return self._heading()
        found, here = self.lines[line - 1], line - 1 == self.at
        row = self._row_of_group(found) if isinstance(found, NodeGroup) else self._row_of_node(found)
        if here and self.has_focus:
            return highlighted(row, width, self.look.cursor)
        return (row[0], Segment(self.look.glyphs.cursor, self.look.title), *row[2:]) if here else row

    def _row_of_group(self, group: NodeGroup) -> Row:
        look, now = self.look, self.view_state.now
        parts = [look.mark(group.severity), Segment(" ")]
        for column, cells in self._columns:
            text, severity = cell_of(group, column.name, now)
            style = look.severity[severity] if severity else look.strong
            parts.append(Segment(fit(text, cells, ">" if column.right else "<") + " ", style))
        return tuple(parts)

    def _row_of_node(self, view: NodeView) -> Row:
        look, now = self.look, self.view_state.now
        alert = self.shown.alert_of(view)
        parts = [look.mark(view.severity if alert is None else alert.severity), Segment(" ")]
        for column, cells in self._columns:
            text, severity = column.cell(view, now)
            if column.name == "trouble" and alert is not None:
                text, severity = alert_words(alert), alert.severity
            style = look.severity[severity] if severity else look.text
            if view.state != "live" and column.name not in ("node", "state", "age", "trouble"):
                style = look.stale
            if column.name == "node" and self.folded:
                text = INDENT + text
            parts.append(Segment(fit(text, cells, ">" if column.right else "<") + " ", style))
        return tuple(parts)

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
        """Return the node under the cursor; None on a group, or in an empty table."""
        line = self.lines[self.at] if self.at < len(self.lines) else None
        return None if isinstance(line, NodeGroup) else line

    def unfold(self) -> bool:
        """List all nodes of the group under the cursor, or only those with problems; False on a node."""
        line = self.lines[self.at] if self.at < len(self.lines) else None
        if not isinstance(line, NodeGroup):
            return False
        self._unfolded ^= {line.name}
        self.repaint()
        return True

    def go(self, item: int) -> None:
        """Move the cursor to a line and remember its node or group."""
        item = max(0, min(item, len(self.lines) - 1))
        self._on = self.lines[item].name if self.lines else ""
        super().go(item)

    def go_to_node(self, name: str) -> None:
        """Move the cursor to the node of this name, or to its group, if one of them is listed."""
        found: int | None = None
        for index, line in enumerate(self.lines):
            if line.name == name and not isinstance(line, NodeGroup):
                found = index
                break
            if found is None and isinstance(line, NodeGroup) and any(v.name == name for v in line.views):
                found = index
        if found is not None and found != self.at:
            self.go(found)

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
        return text_of(self.row(self.at + 1, self.columns)) if self.lines else ""


def alert_words(alert: Alert) -> str:
    """Return an alert in short: `rank 17: CUDA out of memory`."""
    rank = "" if alert.rank is None else f"rank {alert.rank}: "
    return clean(f"{rank}{alert.title}")
