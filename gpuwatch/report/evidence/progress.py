"""Shows the progress of a bundle on a terminal: logs, bytes, remaining time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from gpuwatch.report.evidence.run import EvidenceRun
from gpuwatch.report.output.console import InertConsole


@contextlib.contextmanager
def written_bar(size: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the bytes written so far.

    It draws a bar on stderr if that is a terminal.
    """
    console = InertConsole(stderr=True)
    if not console.is_terminal:
        yield lambda _written: None
        return
    columns = (TextColumn("writing"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("writing", total=size or None)
        yield lambda written: bar.update(task, completed=min(written, size))


@contextlib.contextmanager
def evidence_bar(run: EvidenceRun) -> Iterator[Callable[[], None]]:
    """Show a temporary progress bar on stderr; yield a function to call after every update."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *((DownloadColumn(binary_units=True), TimeRemainingColumn()) if run.bytes else ()),
    )
    with Progress(*columns, console=InertConsole(stderr=True), transient=True) as bar:
        task = bar.add_task("fetching", total=run.bytes or len(run.fetch.logs) or None)

        def report() -> None:
            done = run.fetched_bytes if run.bytes else run.fetch.done
            words = run.progress.partition(", ")[0] if run.bytes else run.progress
            bar.update(task, completed=done, description=words)

        yield report
