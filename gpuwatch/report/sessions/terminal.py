"""Prints a report of sessions, and charts, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuwatch.report.output.console import STYLES
from gpuwatch.report.sessions.charts import Chart
from gpuwatch.report.sessions.document import ReportSection, ReportTable, SessionDocument
from gpuwatch.report.sessions.terminal_plot import plot_lines

PLOT_WIDTH = 100
"""Columns if no terminal sets a width."""
MAX_FOLDED_ROWS = 12


def print_document(document: SessionDocument, console: Console) -> None:
    """Print all sections; of folded tables only the first rows."""
    console.print(Text(document.title, style="bold"))
    console.print(Text(document.made, style=STYLES["muted"]))
    for section in document.sections:
        console.print()
        console.print(Text(section.title, style="bold underline"))
        _print_section(section, console)


def _print_section(section: ReportSection, console: Console) -> None:
    for note in section.notes:
        console.print(Text(f"! {note}", style=STYLES["warning"]))
    for line in section.lines:
        console.print(Text(line, style="bold"))
    for table in section.tables:
        if table.title:
            console.print()
            console.print(Text(table.title))
        console.print(_table(table))
        hidden = len(table.rows) - MAX_FOLDED_ROWS
        if table.folded and hidden > 0:
            console.print(Text(f"{hidden} more; gpuwatch runs show prints them", style=STYLES["muted"]))
    print_charts(section.charts, console)


def _table(table: ReportTable) -> Table:
    is_pairs = table.columns == ("Name", "Value")
    drawn = Table(box=box.SIMPLE_HEAD, show_header=not is_pairs, pad_edge=False, padding=(0, 2, 0, 0))
    for name in table.columns:
        drawn.add_column(Text(name), overflow="fold")
    for row in table.rows[:MAX_FOLDED_ROWS] if table.folded else table.rows:
        drawn.add_row(*map(Text, row))
    return drawn


def print_charts(charts: Sequence[Chart], console: Console) -> None:
    """Print charts drawn with characters, one below the other."""
    has_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    width = min(console.width, PLOT_WIDTH) if console.color_system is None else console.width
    for number, chart in enumerate(charts):
        if number:
            console.print()
        for line in plot_lines(chart, width, has_unicode=has_unicode, has_colour=bool(console.color_system)):
            console.print(line, no_wrap=True, crop=True)
