"""Shows the progress of a scan on a terminal: bytes, files and remaining time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from gpuwatch.report.output.console import InertConsole
from gpuwatch.runs.scan.scan import Watch


@contextlib.contextmanager
def progress_bar(total: int, files: int, stopping: Callable[[], bool]) -> Iterator[Watch]:
    """Show a temporary bar on stderr; yield the `Watch` that the scan reports to.

    It uses no thread, because worker processes are forked meanwhile.
    """
    columns = (
        TextColumn("scanning"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TextColumn("{task.fields[done]} of {task.fields[files]} files"),
        TimeRemainingColumn(),
    )
    console = InertConsole(stderr=True)
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("scanning", total=total or None, done=0, files=files)

        def report(size: int, done: int) -> None:
            bar.update(task, completed=min(size, total), done=done, refresh=True)

        yield Watch(report, stopping)
