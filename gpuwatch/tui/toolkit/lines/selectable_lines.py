"""Lines with a cursor: lists, sortable tables, and pages that are rebuilt."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.message import Message

from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.lines.line_view import LineView
from gpuwatch.tui.toolkit.lines.rows import Row, highlighted, text_of

if TYPE_CHECKING:
    from textual.binding import BindingType

    from gpuwatch.tui.model.preferences import Table


class SelectableLines(LineView, can_focus=True):
    """Lines with a cursor on one of `items()` items."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.MOVES]

    @dataclass
    class Chosen(Message):
        """Posted by Enter, or a double click on the item already under the cursor."""

        picker: SelectableLines

        @property
        def control(self) -> SelectableLines:
            """The widget with the chosen item, for `@on` selectors."""
            return self.picker

    @dataclass
    class Moved(Message):
        """Posted when the cursor has moved."""

        picker: SelectableLines

        @property
        def control(self) -> SelectableLines:
            """The widget whose cursor has moved, for `@on` selectors."""
            return self.picker

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id, classes=classes)
        self.at = 0
        """The item under the cursor."""

    def items(self) -> int:
        """Return the number of items that the cursor can select."""
        return max(0, self.count() - self.pinned)

    def first_line(self, item: int) -> int:
        """Return the number of the first line of an item."""
        return item + self.pinned

    def item_at(self, line: int, x: int) -> int | None:  # noqa: ARG002 - other pickers need the column
        """Return the item at a line and column; None on a pinned line. It may be behind the last item."""
        return line - self.pinned if line >= self.pinned else None

    def page(self) -> int:
        """Return the number of items by which page up and down move."""
        return max(1, self.size.height - self.pinned - 1)

    def steps(self, dx: int, dy: int) -> int:
        """Return the number of items by which an arrow key moves."""
        return dx + dy

    def go(self, item: int) -> None:
        """Select an item (or the nearest one that exists), scroll to it, and post `Moved`."""
        self.at = max(0, min(item, self.items() - 1))
        self.show_line(self.first_line(self.at))
        self.pull()
        self.post_message(self.Moved(self))

    def action_move(self, dx: int, dy: int) -> None:
        """Move the cursor by an arrow key."""
        self.go(self.at + self.steps(dx, dy))

    def action_pages(self, pages: float) -> None:
        """Move the cursor by this many pages."""
        self.go(self.at + int(pages * self.page()))

    def action_jump_to_end(self, item: int) -> None:
        """Select the first (0) or last (-1) item."""
        self.go(item if item >= 0 else self.items() - 1)

    def action_choose(self) -> None:
        """Post `Chosen` for the item under the cursor, if there are items."""
        if self.items():
            self.post_message(self.Chosen(self))

    def click(self, line: int, x: int, *, twice: bool) -> None:
        """Select the item at a position. If it is already selected and `twice` is set, choose it."""
        item = self.item_at(line, x)
        if item is None or item >= self.items():
            return
        if item == self.at and twice:
            self.action_choose()
        else:
            self.go(item)

    def on_click(self, event: events.Click) -> None:
        self.click(self.line_under(event), event.x, twice=event.chain > 1)

    def on_focus(self) -> None:
        """Repaint, because the cursor gets its colour."""
        self.pull()

    def on_blur(self) -> None:
        """Repaint, because the cursor loses its colour."""
        self.pull()


class SortableTable(SelectableLines):
    """A table under a heading whose titles sort it; the order is saved in the settings."""

    table: ClassVar[Table]
    unsorted: ClassVar[str] = ""
    """The default sort order."""
    falling_columns: ClassVar[frozenset[str]]
    """Columns that are first sorted with the largest value first."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self.sort_name = self.unsorted
        self.falling = False

    def sort_by(self, name: str) -> None:
        """Sort by a column and save the order; for the current column, reverse it."""
        again = bool(name) and name == self.sort_name
        self.falling = not self.falling if again else name in self.falling_columns
        self.sort_name = name
        self._keep_order()

    def take_order(self, text: str) -> None:
        """Set the sort order from its text in the settings; "" is the default.

        The text is the name of a column; a leading `-` reverses the order.
        """
        self.sort_name = text.removeprefix("-") or self.unsorted
        self.falling = (self.sort_name in self.falling_columns) != text.startswith("-")

    def _keep_order(self) -> None:
        turned = self.falling != (self.sort_name in self.falling_columns)
        self.cockpit.prefer_of("sort", self.table, ("-" * turned + self.sort_name) * bool(self.sort_name))
        self.repaint()

    def reverse(self) -> None:
        """Reverse the order, and save it."""
        self.falling = not self.falling
        self._keep_order()

    def click_title(self, x: int) -> None:
        """Sort by the column whose title is at `x`, if there is one; subclasses implement it."""
        raise NotImplementedError

    def click(self, line: int, x: int, *, twice: bool) -> None:
        """Sort by a clicked title; elsewhere select the clicked line."""
        if line > 0:
            super().click(line, x, twice=twice)
        else:
            self.click_title(x)


class RebuiltPage(SelectableLines):
    """A page with few lines, all of which are rebuilt once per frame."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id, classes=classes)
        self._rows: list[Row] = []

    def build(self, width: int) -> list[Row]:
        """Return all lines for this width; subclasses implement it."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Rebuild the lines."""
        self._rows = self.build(self.columns)
        self.at = max(0, min(self.at, self.items() - 1))

    def count(self) -> int:
        return len(self._rows)

    def key(self, line: int) -> Hashable:
        """Return the line with the cursor's state, on which painting it depends."""
        return (self._rows[line], line == self.first_line(self.at), self.has_focus)

    def row(self, line: int, width: int) -> Row:
        """Return the line, highlighted if the cursor is on it and the page has the focus."""
        row = self._rows[line]
        if self.has_focus and line == self.first_line(self.at) and line >= self.pinned:
            return highlighted(row, width, self.look.cursor)
        return row

    def copy_text(self) -> str:
        """Return the text of the line under the cursor; "" without lines."""
        line = self.first_line(self.at)
        return text_of(self._rows[line]) if line < len(self._rows) else ""
