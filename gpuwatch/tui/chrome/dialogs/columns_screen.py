"""The dialog that selects a table's columns; the table behind it changes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.strip import Strip
from textual.widgets import Label, SelectionList
from textual.widgets.selection_list import Selection

from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.dialog import Dialog

CLOSES = ("app.back", "app.quit", "app.columns", "move.open")


class ColumnChoice(SelectionList[str]):
    """A list of columns whose marks also show without colour what is selected: `X`, or an empty box."""

    def render_line(self, y: int) -> Strip:
        line = super().render_line(y)
        index = self.scroll_offset.y + y
        if index >= self.option_count or self.get_option_at_index(index).value in self.selected:
            return line
        left, mark, *rest = line
        return Strip([left, Segment(" " * mark.cell_length, mark.style), *rest])


class ColumnsScreen(Dialog[None]):
    """A dialog with one line per column, to show or hide it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.with_actions(dict.fromkeys(CLOSES, "close"), {"move.open": "Done"}, priority=True),
        *keys.with_actions({"move.down": "down", "move.up": "up"}),
    ]

    def __init__(
        self,
        table: str,
        titles: Mapping[str, str],
        shown: Sequence[str],
        take: Callable[[list[str]], None],
    ) -> None:
        """Create the dialog.

        Args:
            table: What the table lists.
            titles: The title of each column by name, in screen order.
            shown: The selected columns.
            take: Called with the selected columns after each change.
        """
        super().__init__()
        self._table, self._names, self._take = table, tuple(titles), take
        self.choice = ColumnChoice(*(Selection(title, name, name in shown) for name, title in titles.items()))

    def compose(self) -> ComposeResult:
        with Vertical(id="columns-box"):
            yield Label(f"Columns of the {self._table}")
            yield self.choice
            yield Label("space: show or hide", classes="box-note", markup=False)
        yield KeysLine()

    def on_mount(self) -> None:
        self.choice.focus()

    @on(SelectionList.SelectedChanged)
    def _changed(self) -> None:
        chosen = set(self.choice.selected)
        self._take([name for name in self._names if name in chosen])

    def action_close(self) -> None:
        self.dismiss()

    def action_down(self) -> None:
        self.choice.action_cursor_down()

    def action_up(self) -> None:
        self.choice.action_cursor_up()
