"""The dialog that lists the possible actions; nothing runs before the next dialog confirms it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from gpuwatch.diagnose.actions.action import Action
from gpuwatch.tui.actions.action_text import described
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.dialog import Dialog
from gpuwatch.tui.toolkit.styles import clean

CLOSES = ("app.back", "app.quit", "app.actions")


class ActionsScreen(Dialog["Action | None"]):
    """A list of actions above a description of the selected one. Its result is the chosen action, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.with_actions({"move.open": "choose"}, {"move.open": "Confirm before it runs"}, priority=True),
        *keys.with_actions(
            {"move.down": "down", "move.up": "up", "app.copy": "copy"}, {"app.copy": "Copy the command"}
        ),
        *keys.with_actions(dict.fromkeys(CLOSES, "close"), {"app.back": "Do nothing"}, priority=True),
    ]

    def __init__(self, title: str, actions: Sequence[Action]) -> None:
        """Create the dialog for `actions`."""
        super().__init__()
        self._title, self._actions = title, actions
        self.choice = OptionList(*(Option(Content(clean(each.title))) for each in actions))
        self.about = Label("", markup=False)

    def compose(self) -> ComposeResult:
        with Vertical(id="actions-box"):
            yield Label(f"Actions: {self._title}", markup=False)
            yield self.choice
            with VerticalScroll(id="action-about", can_focus=False):
                yield self.about
        yield KeysLine()

    def on_mount(self) -> None:
        self.choice.highlighted = 0
        self.choice.focus()

    @on(OptionList.OptionHighlighted)
    def _show(self, event: OptionList.OptionHighlighted) -> None:
        self.about.update(Content(described(self._actions[event.option_index])))

    @on(OptionList.OptionSelected)
    def _take(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._actions[event.option_index])

    def action_close(self) -> None:
        self.dismiss(None)

    def action_choose(self) -> None:
        self.choice.action_select()

    def action_copy(self) -> None:
        """Copy the command under the cursor."""
        if self.choice.highlighted is not None:
            self.app.copy_to_clipboard(clean(self._actions[self.choice.highlighted].command))
            self.app.notify("command copied", timeout=2)

    def action_down(self) -> None:
        self.choice.action_cursor_down()

    def action_up(self) -> None:
        self.choice.action_cursor_up()
