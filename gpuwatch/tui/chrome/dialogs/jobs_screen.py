"""The dialog that selects a job, which then is the only one that the screens show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from gpuwatch.diagnose.model.text import allocation_words
from gpuwatch.number_text import plural
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.model.job_scope import JobSummary
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.dialog import Dialog
from gpuwatch.tui.toolkit.styles import clean, fit

NAME_COLUMNS = 24
CLOSES = ("app.back", "app.quit", "app.jobs")


class JobsScreen(Dialog["str | None"]):
    """A dialog with one line per job. Its result is the chosen job, "" for all jobs, or None if closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.with_actions({"move.down": "down", "move.up": "up"}),
        *keys.with_actions({"move.open": "choose"}, {"move.open": "Choose"}, priority=True),
        *keys.with_actions(dict.fromkeys(CLOSES, "close"), {"app.back": "Close"}, priority=True),
    ]

    def __init__(self, jobs: Sequence[JobSummary], chosen: str | None, wall: float) -> None:
        """Create the dialog.

        Args:
            jobs: In display order.
            chosen: The job that is shown alone.
            wall: Unix seconds.
        """
        super().__init__()
        self._jobs, self._chosen = jobs, chosen
        texts = ["all jobs", *(_text(each, wall) for each in jobs)]
        self.choice = OptionList(*(Option(Content(text)) for text in texts))

    def compose(self) -> ComposeResult:
        with Vertical(id="jobs-box"):
            yield Label("Jobs: every screen then shows only the chosen one")
            yield self.choice
        yield KeysLine()

    def on_mount(self) -> None:
        names = [each.job for each in self._jobs]
        self.choice.highlighted = names.index(self._chosen) + 1 if self._chosen in names else 0
        self.choice.focus()

    @on(OptionList.OptionSelected)
    def _take(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._jobs[event.option_index - 1].job if event.option_index else "")

    def action_close(self) -> None:
        self.dismiss(None)

    def action_choose(self) -> None:
        self.choice.action_select()

    def action_down(self) -> None:
        self.choice.action_cursor_down()

    def action_up(self) -> None:
        self.choice.action_cursor_up()


def _text(each: JobSummary, wall: float) -> str:
    size = f"{plural(each.ranks, 'rank')} on {plural(each.nodes, 'node')}"
    state = "running" if each.running else "ended"
    if each.allocation is not None:
        state = clean(allocation_words(each.allocation, wall))
    return f"{fit(clean(each.job), NAME_COLUMNS)}  {fit(size, 22)}  {fit(clean(each.user), 10)}  {state}"
