"""The dialog that asks for a time in a recording."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Input, Label

from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.dialog import Dialog
from gpuwatch.tui.toolkit.time_input import TimeError, clock_text, time_typed


class TimeScreen(Dialog["float | None"]):
    """The dialog that asks for a time in a recording.

    Its result is the time in unix seconds, or None if it was closed.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*keys.with_actions({"app.back": "close"})]

    def __init__(self, at: float, extent: tuple[float, float]) -> None:
        """Create the dialog.

        `at` is the shown time, `extent` the recording's first and last (unix seconds).
        """
        super().__init__()
        self._at, self._extent = at, extent
        self.field = Input(placeholder="12:03:11, -30s, +5m, 2026-03-01 12:03:11")
        self.note = Label("", classes="box-note", markup=False)

    def compose(self) -> ComposeResult:
        with Vertical(id="jobs-box"):
            yield Label(f"Go to a time from {clock_text(self._extent[0])} to {clock_text(self._extent[1])}")
            yield self.field
            yield self.note
        yield KeysLine(field=("Go", "Close"))

    def on_mount(self) -> None:
        self.field.focus()

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        first, last = self._extent
        try:
            at = time_typed(event.value, self._at, last)
        except TimeError as error:
            self.note.update(str(error))
            return
        if first - 1 <= at <= last + 1:
            self.dismiss(at)
        else:
            self.note.update(f"{clock_text(at)} is outside of the recording")

    def action_close(self) -> None:
        self.dismiss(None)
