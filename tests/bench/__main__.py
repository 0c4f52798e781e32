"""Print the benchmark table: `make bench`, or `python -m tests.bench [NAME ...]` for some of its parts."""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gpuwatch import __version__
from gpuwatch.fleet.history import bytes_per_gpu
from tests.bench import (
    agent_cost,
    cockpit,
    hang,
    latency,
    links,
    log_pane,
    logs,
    matcher,
    probe,
    scan,
    screen,
    startup,
    transport,
)
from tests.bench.cpu import Row

MARKS = {True: "yes", False: "NO", None: ""}


def memory() -> Sequence[Row]:
    """What the histories of one GPU cost."""
    return [Row("history of one GPU, 15 min at 1 s and 24 h", f"{bytes_per_gpu():,} bytes", "", None)]


PARTS: dict[str, Callable[[Path], Sequence[Row]]] = {
    "startup": lambda _folder: startup.rows(),
    "screen": lambda _folder: screen.rows(),
    "links": lambda _folder: links.rows(),
    "memory": lambda _folder: memory(),
    "agent": agent_cost.rows,
    "transport": transport.rows,
    "cockpit": cockpit.rows,
    "logs": logs.rows,
    "log_pane": lambda _folder: log_pane.rows(),
    "latency": latency.rows,
    "matcher": matcher.rows,
    "scan": scan.rows,
    "probe": probe.rows,
    "hang": lambda _folder: hang.rows(),
}


def main(names: Sequence[str]) -> None:
    """Measure part by part, then print."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise SystemExit(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    console = Console()
    table = Table(title=f"gpuwatch {__version__}, Python {platform.python_version()}, {platform.machine()}")
    for heading in ("what", "measured", "goal", "holds"):
        table.add_column(heading)
    for name in names or PARTS:
        console.print(f"measuring {name} ...", style="dim")
        with tempfile.TemporaryDirectory() as folder:
            for row in PARTS[name](Path(folder)):
                table.add_row(row.what, row.measured, row.goal, MARKS[row.holds])
    console.print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
