"""The columns of a table, to be chosen from: over the screen of the table, which changes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, SelectionList
from textual.widgets.selection_list import Selection

from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary


class ColumnsScreen(ErrorBoundary, ModalScreen[None]):
    """A box with a line for each column."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,C", "close", "Close", priority=True),
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
    ]

    def __init__(
        self, table: str, titles: Mapping[str, str], shown: Sequence[str], take: Callable[[list[str]], None]
    ) -> None:
        """Offer columns.

        Args:
            table: What the table lists.
            titles: The title of each of its columns by name, in the order of the screen.
            shown: Those that are wanted now.
            take: Is given those that are wanted, whenever that changes.
        """
        super().__init__()
        self._table, self._names, self._take = table, tuple(titles), take
        self.choice = SelectionList[str](
            *(Selection(title, name, name in shown) for name, title in titles.items())
        )

    def compose(self) -> ComposeResult:
        """A title, the columns, what the keys do."""
        with Vertical(id="columns-box"):
            yield Label(f"Columns of the {self._table}")
            yield self.choice
            yield Label("space: show or hide   enter: done", classes="box-note")

    def on_mount(self) -> None:
        """The keys go to the list."""
        self.choice.focus()

    @on(SelectionList.SelectedChanged)
    def _changed(self) -> None:
        chosen = set(self.choice.selected)
        self._take([name for name in self._names if name in chosen])

    def action_close(self) -> None:
        """Back to the table."""
        self.dismiss()

    def action_down(self) -> None:
        """The next column."""
        self.choice.action_cursor_down()

    def action_up(self) -> None:
        """The column before."""
        self.choice.action_cursor_up()
