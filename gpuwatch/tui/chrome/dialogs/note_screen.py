"""The dialog for a note on an incident."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Input, Label

from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.dialog import Dialog

MAX_CHARS = 2000


class NoteScreen(Dialog[None]):
    """A dialog with a one-line text field; an empty text adds no note."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.with_actions({"app.back": "close"})]

    def __init__(self, title: str, take: Callable[[str], None]) -> None:
        """Create the dialog.

        Args:
            title: What the note is about.
            take: Called with the text when it is entered.
        """
        super().__init__()
        self._title, self._take = title, take
        self.line = Input(placeholder="note for everyone who watches this cluster", max_length=MAX_CHARS)

    def compose(self) -> ComposeResult:
        with Vertical(id="note-box"):
            yield Label(self._title, markup=False)
            yield self.line
        yield KeysLine(field=("Keep", "Discard"))

    def on_mount(self) -> None:
        self.line.focus()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        text = self.line.value.strip()
        self.dismiss()
        if text:
            self._take(text)

    def action_close(self) -> None:
        self.dismiss()
