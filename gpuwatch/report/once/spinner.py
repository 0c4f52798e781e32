"""Shows on a terminal what a first report is waiting for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from gpuwatch.fleet.nodes.node import Node
from gpuwatch.number_text import listed
from gpuwatch.report.once.first_report import Progress
from gpuwatch.report.output.console import InertConsole


@contextlib.contextmanager
def waiting_line() -> Iterator[Progress]:
    """Show a temporary line on stderr; yield a function to call with the missing nodes and seconds left."""
    with InertConsole(stderr=True).status("connecting") as status:

        def report(nodes: Sequence[Node], left_s: float) -> None:
            waited_for = listed([node.name for node in nodes])
            status.update(Text(f"waiting for {waited_for}, at most {left_s:.0f} s"))

        yield report


@contextlib.contextmanager
def words_line() -> Iterator[Callable[[str], None]]:
    """Show a temporary line on stderr; yield a function to call with its text."""
    with InertConsole(stderr=True).status("connecting") as status:
        yield lambda words: status.update(Text(words))
