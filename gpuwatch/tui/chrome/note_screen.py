"""A note about an incident, written in a box over the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary

MAX_CHARS = 2000


class NoteScreen(ErrorBoundary, ModalScreen[None]):
    """One line of text; an empty one is no note."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.with_actions({"app.back": "close"})]

    def __init__(self, title: str, take: Callable[[str], None], key_of: Callable[[str], str]) -> None:
        """Offer a line.

        Args:
            title: What the note is about.
            take: Is given the text.
            key_of: The key in force of a binding, by its id.
        """
        super().__init__()
        self._title, self._take, self._key_of = title, take, key_of
        self.line = Input(placeholder="note for everyone who watches this cluster", max_length=MAX_CHARS)

    def compose(self) -> ComposeResult:
        """The title, the line, what the keys do."""
        with Vertical(id="note-box"):
            yield Label(self._title, markup=False)
            yield self.line
            keep, drop = self._key_of("move.open"), self._key_of("app.back")
            yield Label(f"{keep}: keep   {drop}: discard", classes="box-note", markup=False)

    def on_mount(self) -> None:
        """The keys go to the line."""
        self.line.focus()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        text = self.line.value.strip()
        self.dismiss()
        if text:
            self._take(text)

    def action_close(self) -> None:
        """Back, without a note."""
        self.dismiss()
