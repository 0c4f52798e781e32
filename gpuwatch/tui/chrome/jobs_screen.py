"""The jobs, to choose one from: then every screen shows it alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from gpuwatch.diagnose.model.text import allocation_words, plural
from gpuwatch.tui.model.job_scope import JobSummary
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary
from gpuwatch.tui.toolkit.styles import clean, fit

NAME_COLUMNS = 24
CLOSES = ("app.back", "app.quit", "app.jobs")


class JobsScreen(ErrorBoundary, ModalScreen["str | None"]):
    """A box with a line for each job; the result is the job, empty for all of them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.with_actions(dict.fromkeys(CLOSES, "close"), priority=True),
        *keys.with_actions({"move.down": "down", "move.up": "up", "move.open": "choose"}),
    ]

    def __init__(
        self, jobs: Sequence[JobSummary], chosen: str | None, key_of: Callable[[str], str], wall: float
    ) -> None:
        """Offer jobs.

        Args:
            jobs: In their order.
            chosen: The one that is shown alone.
            key_of: The key in force of a binding.
            wall: Unix seconds.
        """
        super().__init__()
        self._jobs, self._chosen, self._key_of = jobs, chosen, key_of
        texts = ["all jobs", *(_text(each, wall) for each in jobs)]
        self.choice = OptionList(*(Option(Content(text)) for text in texts))

    def compose(self) -> ComposeResult:
        """A title, the jobs, what the keys do."""
        with Vertical(id="jobs-box"):
            yield Label("Jobs: every screen shows the chosen one alone")
            yield self.choice
            choose, back = self._key_of("move.open"), self._key_of("app.back")
            ways = f"{choose}: choose   {back}: leave it as it is"
            yield Label(ways, classes="box-note", markup=False)

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

    def action_choose(self) -> None:
        """Take the job under the cursor."""
        self.choice.action_select()

    def action_down(self) -> None:
        """The next job."""
        self.choice.action_cursor_down()

    def action_up(self) -> None:
        """The job before."""
        self.choice.action_cursor_up()


def _text(each: JobSummary, wall: float) -> str:
    size = f"{plural(each.ranks, 'rank')} on {plural(each.nodes, 'node')}"
    state = "running" if each.running else "ended"
    if each.allocation is not None:
        state = clean(allocation_words(each.allocation, wall))
    return f"{fit(clean(each.job), NAME_COLUMNS)}  {fit(size, 22)}  {fit(clean(each.user), 10)}  {state}"
