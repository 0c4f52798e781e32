"""Lines with a cursor: lists, tables that a column orders, pages that are made afresh."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.message import Message

from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.line_view import LineView
from gpuwatch.tui.toolkit.rows import Row, highlighted, text_of

if TYPE_CHECKING:
    from textual.binding import BindingType

    from gpuwatch.tui.model.preferences import Table


class SelectableLines(LineView, can_focus=True):
    """Lines with a cursor on one of `items()` things."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.MOVES]

    @dataclass
    class Chosen(Message):
        """Enter, or a click on what the cursor is on already."""

        picker: SelectableLines

        @property
        def control(self) -> SelectableLines:
            """The widget, for `@on` selectors."""
            return self.picker

    @dataclass
    class Moved(Message):
        """The cursor is somewhere else."""

        picker: SelectableLines

        @property
        def control(self) -> SelectableLines:
            """The widget, for `@on` selectors."""
            return self.picker

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id, classes=classes)
        self.at = 0
        """The thing that the cursor is on."""

    def items(self) -> int:
        """How many things the cursor can be on."""
        return max(0, self.count() - self.pinned)

    def first_line(self, item: int) -> int:
        """The first line of a thing."""
        return item + self.pinned

    def item_at(self, line: int, x: int) -> int | None:  # noqa: ARG002 - other pickers need the column
        """The thing at a place."""
        return line - self.pinned if line >= self.pinned else None

    def page(self) -> int:
        """How far page up and down go."""
        return max(1, self.size.height - self.pinned - 1)

    def steps(self, dx: int, dy: int) -> int:
        """Where an arrow key leads, as a difference of items."""
        return dx + dy

    def go(self, item: int) -> None:
        """Put the cursor on a thing (the nearest one that exists) and show it."""
        self.at = max(0, min(item, self.items() - 1))
        self.show_line(self.first_line(self.at))
        self.pull()
        self.post_message(self.Moved(self))

    def action_move(self, dx: int, dy: int) -> None:
        """An arrow key."""
        self.go(self.at + self.steps(dx, dy))

    def action_pages(self, pages: float) -> None:
        """A page, or half of one."""
        self.go(self.at + int(pages * self.page()))

    def action_jump_to_end(self, item: int) -> None:
        """The first (0) or last (-1) thing."""
        self.go(item if item >= 0 else self.items() - 1)

    def action_choose(self) -> None:
        """Open what the cursor is on."""
        if self.items():
            self.post_message(self.Chosen(self))

    def click(self, line: int, x: int, *, twice: bool) -> None:
        """Put the cursor there; open it on the second click."""
        item = self.item_at(line, x)
        if item is None or item >= self.items():
            return
        if item == self.at and twice:
            self.action_choose()
        else:
            self.go(item)

    def on_click(self, event: events.Click) -> None:
        """The mouse."""
        self.click(self.line_under(event), event.x, twice=event.chain > 1)

    def on_focus(self) -> None:
        """The cursor gets its colour."""
        self.pull()

    def on_blur(self) -> None:
        """The cursor loses its colour."""
        self.pull()


class SortableTable(SelectableLines):
    """Lines under a heading whose titles order them; the order is kept in the settings."""

    table: ClassVar[Table]
    unsorted: ClassVar[str] = ""
    """What orders the table where no column was chosen."""
    falling_columns: ClassVar[frozenset[str]]
    """Columns that begin with their largest value."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self.sort_name = self.unsorted
        self.falling = False

    def sort_by(self, name: str) -> None:
        """Order by a column; again turns it round."""
        again = bool(name) and name == self.sort_name
        self.falling = not self.falling if again else name in self.falling_columns
        self.sort_name = name
        self._keep_order()

    def take_order(self, text: str) -> None:
        """Order as the settings have it: the name of a column, with `-` before it the other way round."""
        self.sort_name = text.removeprefix("-") or self.unsorted
        self.falling = (self.sort_name in self.falling_columns) != text.startswith("-")

    def _keep_order(self) -> None:
        turned = self.falling != (self.sort_name in self.falling_columns)
        self.cockpit.prefer_of("sort", self.table, ("-" * turned + self.sort_name) * bool(self.sort_name))
        self.repaint()

    def reverse(self) -> None:
        """Turn the order round."""
        self.falling = not self.falling
        self._keep_order()

    def click_title(self, x: int) -> None:
        """Sort by the title at this column of the screen."""
        raise NotImplementedError

    def click(self, line: int, x: int, *, twice: bool) -> None:
        """A click on a title sorts by it; elsewhere it moves the cursor."""
        if line > 0:
            super().click(line, x, twice=twice)
        else:
            self.click_title(x)


class RebuiltPage(SelectableLines):
    """A page of lines that are few enough to be made afresh whenever anything moved."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id, classes=classes)
        self._rows: list[Row] = []

    def build(self, width: int) -> list[Row]:
        """All lines, for a width."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Make the lines."""
        self._rows = self.build(self.columns)
        self.at = max(0, min(self.at, self.items() - 1))

    def count(self) -> int:
        """Lines in all."""
        return len(self._rows)

    def key(self, line: int) -> Hashable:
        """A line depends on what it states and on the cursor."""
        return (self._rows[line], line == self.first_line(self.at), self.has_focus)

    def row(self, line: int, width: int) -> Row:
        """The line, with the cursor's background where it is."""
        row = self._rows[line]
        if self.has_focus and line == self.first_line(self.at) and line >= self.pinned:
            return highlighted(row, width, self.look.cursor)
        return row

    def copy_text(self) -> str:
        """The line under the cursor."""
        line = self.first_line(self.at)
        return text_of(self._rows[line]) if line < len(self._rows) else ""
