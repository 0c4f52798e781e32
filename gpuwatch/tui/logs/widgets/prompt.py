"""The text field of the log screen for ranks, a pattern or a time; the panes stay visible."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, Label

from gpuwatch.tui.logs.workspace.prompt_input import Purpose
from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary
from gpuwatch.tui.toolkit.styles import clean

PROMPTS: dict[Purpose, tuple[str, str]] = {
    "choose": ("logs of", "0-7  3,8-15  gpu-003  incident-1  failed  slowest  all  rank_3.log"),
    "search": ("/", "a regular expression, in every log on every node"),
    "filter": ("filter", "a regular expression; a leading ! excludes; empty shows all"),
    "time": ("go to", "12:03:11  -30s  +5m  2026-03-01 12:03:11"),
}


class LogPrompt(ErrorBoundary, Horizontal):
    """The text field of the logs screen: a label, the text, and beside it the result or an error."""

    DEFAULT_CSS: ClassVar[str] = "LogPrompt { height: 1; background: $surface; }"

    def __init__(self) -> None:
        super().__init__(id="log-prompt")
        self.purpose: Purpose = "choose"
        self.field = Input(id="log-text", compact=True)
        self.reported = Label("", id="log-note")
        self._sign = Label("", id="log-sign")

    def compose(self) -> ComposeResult:
        yield self._sign
        yield self.field
        yield self.reported

    def ask(self, purpose: Purpose, text: str) -> None:
        """Open the field for a purpose with `text` in it, and focus it."""
        self.purpose = purpose
        sign, self.field.placeholder = PROMPTS[purpose]
        self._sign.update(f" {sign} ")
        self.field.value = text
        self.report("")
        self.display = True
        self.field.focus()

    def report(self, error: str, fine: str = "") -> None:
        """Show an error message beside the text field, or the result `fine` if there is no error."""
        self.reported.update(clean(error or fine).replace("[", "\\["))
        self.reported.set_class(bool(error), "-error")
