"""Shows the progress of reading files on a terminal: bytes and remaining time."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from gpuwatch.report.output.console import InertConsole


@contextlib.contextmanager
def read_progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show a temporary bar on stderr, if that is a terminal; yield a function to call with the bytes read.

    Args:
        total: Bytes of all files.
    """
    if not sys.stderr.isatty():
        yield lambda _size: None
        return
    columns = TextColumn("reading"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn()
    with Progress(*columns, console=InertConsole(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("reading", total=total or None)
        yield lambda size: bar.update(task, completed=min(size, total), refresh=True)
