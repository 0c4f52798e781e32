"""The jobs, to choose one from: then every screen shows it alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from gpuwatch.diagnose.model.text import plural
from gpuwatch.tui.model.job_scope import JobSummary
from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary
from gpuwatch.tui.toolkit.styles import clean, fit

NAME_COLUMNS = 24


class JobsScreen(ErrorBoundary, ModalScreen["str | None"]):
    """A box with a line for each job; the result is the job, empty for all of them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,J", "close", "Close", priority=True),
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
    ]

    def __init__(self, jobs: Sequence[JobSummary], chosen: str | None) -> None:
        super().__init__()
        self._jobs, self._chosen = jobs, chosen
        texts = ["all jobs", *map(_text, jobs)]
        self.choice = OptionList(*(Option(Content(text)) for text in texts))

    def compose(self) -> ComposeResult:
        """A title, the jobs, what the keys do."""
        with Vertical(id="jobs-box"):
            yield Label("Jobs: every screen shows the chosen one alone")
            yield self.choice
            yield Label("enter: choose   esc: leave it as it is", classes="box-note")

    def on_mount(self) -> None:
        """Start on the job that is shown."""
        names = [each.job for each in self._jobs]
        self.choice.highlighted = names.index(self._chosen) + 1 if self._chosen in names else 0
        self.choice.focus()

    @on(OptionList.OptionSelected)
    def _take(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._jobs[event.option_index - 1].job if event.option_index else "")

    def action_close(self) -> None:
        """Back, without a change."""
        self.dismiss(None)

    def action_down(self) -> None:
        """The next job."""
        self.choice.action_cursor_down()

    def action_up(self) -> None:
        """The job before."""
        self.choice.action_cursor_up()


def _text(each: JobSummary) -> str:
    size = f"{plural(each.ranks, 'rank')} on {plural(each.nodes, 'node')}"
    state = "running" if each.running else "ended"
    return f"{fit(clean(each.job), NAME_COLUMNS)}  {fit(size, 22)}  {fit(clean(each.user), 10)}  {state}"
