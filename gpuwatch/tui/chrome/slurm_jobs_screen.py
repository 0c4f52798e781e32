"""The screen that selects a Slurm job before the session is opened: `gpuwatch --slurm`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Footer, Label, OptionList
from textual.widgets.option_list import Option

from gpuwatch.hosts.slurm.reports import QueuedJob
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.number_text import plural
from gpuwatch.plain import plain
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.themes import THEMES

AGAIN_S = 30.0
"""Seconds between two readings of the queue."""
ReadQueue = Callable[[bool], Sequence[QueuedJob]]
"""A function that reads the queue: (of all users) -> its jobs, running ones first; raises `HostsError`."""


class SlurmJobsApp(App[str]):
    """A list of jobs. Its result is the id of the chosen one, or None."""

    CSS = """
    Screen { background: $background; }
    #jobs-title { padding: 0 1; background: $surface; width: 100%; }
    #jobs-head { padding: 1 0 0 1; color: $text-muted; }
    #jobs > .option-list--option { padding: 0 1; }
    #jobs { border: none; height: 1fr; background: $background; padding: 0; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [*keys.SLURM]

    def __init__(self, read: ReadQueue, table: Callable[[Sequence[QueuedJob]], Sequence[str]]) -> None:
        """Prepare; the queue is read when the screen is shown.

        Args:
            read: Reads the queue; it may take seconds.
            table: The heading and one line per job; empty without jobs.
        """
        super().__init__()
        self._read, self._table = read, table
        self._jobs: Sequence[QueuedJob] = ()
        self._everyone = False
        self.title_line = Label("Slurm: reading the queue", id="jobs-title", markup=False)
        self.head = Label("", id="jobs-head", markup=False)
        self.choice = OptionList(id="jobs")
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = THEMES[0].name

    def compose(self) -> ComposeResult:
        yield self.title_line
        yield self.head
        yield self.choice
        yield Footer()

    def on_mount(self) -> None:
        self.choice.focus()
        self.action_read()
        self.set_interval(AGAIN_S, self.action_read)

    @work(thread=True, exclusive=True)
    def action_read(self) -> None:
        """Read the queue on a thread, and show it."""
        everyone = self._everyone
        try:
            jobs = self._read(everyone)
        except HostsError as error:
            self.call_from_thread(self._fail, str(error))
            return
        self.call_from_thread(self._show, jobs, everyone)

    def _fail(self, why: str) -> None:
        self.title_line.update(plain(f"Slurm: {why}"))

    def _show(self, jobs: Sequence[QueuedJob], everyone: bool) -> None:
        if everyone != self._everyone:
            return
        at = self.choice.highlighted
        chosen = self._jobs[at].id if at is not None and at < len(self._jobs) else None
        head, *lines = self._table(jobs) or [""]
        self._jobs = jobs
        running = sum(job.state == "RUNNING" for job in jobs)
        whose = "of all users" if everyone else "of yours"
        self.title_line.update(f"Slurm: {plural(len(jobs), 'job')} {whose}, {running} running")
        self.head.update(head)
        self.choice.clear_options()
        self.choice.add_options(
            Option(Content(line), disabled=job.state != "RUNNING")
            for job, line in zip(jobs, lines, strict=True)
        )
        if running:
            ids = [job.id for job in jobs[:running]]
            self.choice.highlighted = ids.index(chosen) if chosen in ids else 0

    def action_everyone(self) -> None:
        """Show the jobs of all users, or one's own again."""
        self._everyone = not self._everyone
        self.action_read()

    def action_choose(self) -> None:
        """Exit the app with the id of the job under the cursor, if that job runs."""
        at = self.choice.highlighted
        if at is not None and self._jobs[at].state == "RUNNING":
            self.exit(self._jobs[at].id)

    @on(OptionList.OptionSelected)
    def _clicked(self) -> None:
        self.action_choose()

    def action_down(self) -> None:
        """Go to the next job."""
        self.choice.action_cursor_down()

    def action_up(self) -> None:
        """Go to the job before."""
        self.choice.action_cursor_up()

    def action_leave(self) -> None:
        """End without a job."""
        self.exit(None)
