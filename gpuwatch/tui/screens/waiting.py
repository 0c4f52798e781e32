"""The screen of `D`: who is everyone waiting for."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Footer

from gpuwatch.tui.question import Question
from gpuwatch.tui.screens.live import LiveScreen
from gpuwatch.tui.widgets.hearing_page import HearingPage
from gpuwatch.tui.widgets.status_line import StatusLine


class WaitingScreen(LiveScreen):
    """One question and its answers as they come; leaving it does not end the question."""

    kind = "waiting"

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.page = HearingPage(question)

    def compose(self) -> ComposeResult:
        """Status, page, footer."""
        yield StatusLine(id="status")
        yield self.page
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """The page has the keys."""
        self.page.focus()

    def renew(self, question: Question) -> None:
        """Another question on the same screen."""
        self.page.question = question
        self.pull()
