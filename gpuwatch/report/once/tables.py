"""Prints a `Report`: fitted and coloured on a terminal, plain aligned text in a pipe."""

from __future__ import annotations

from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuwatch.report.once.gpu_columns import COLUMNS
from gpuwatch.report.once.text import NodeBlock, Report
from gpuwatch.report.output.console import STYLES, console_on, show

GAP = 2
INDENT = 2
MIN_LAST_WIDTH = 12
"""Minimum useful width of the last column, in cells."""


def print_report(report: Report, out: TextIO) -> None:
    """Write the report on the fleet; colours depend on the terminal, NO_COLOR and TERM."""
    with console_on(out) as console:
        draw(report, console, fit=out.isatty())


def draw(report: Report, console: Console, *, fit: bool) -> None:
    """Print everything in order; sentences wrap, table cells do not."""
    show(console, report.title)
    for line in report.incidents:
        show(console, line)
    widths = natural_widths(report)
    kept = fitting(widths, console.width) if fit else list(range(len(COLUMNS)))
    for number, block in enumerate(report.nodes):
        console.print()
        show(console, block.heading)
        if block.rows:
            console.print(gpu_table(block, widths, kept, console.width if fit else None, titles=number == 0))
        for note in block.notes:
            show(console, note, indent=INDENT)
    for lines in (report.notices, report.findings):
        if lines:
            console.print()
        for line in lines:
            show(console, line)
    console.print()
    show(console, report.verdict)


def natural_widths(report: Report) -> list[int]:
    """Return the width of each column's title or widest cell over all nodes, so that tables line up."""
    widths = [cell_len(column.title) for column in COLUMNS]
    for block in report.nodes:
        for cells, _ in block.rows:
            widths = [max(width, cell_len(cell)) for width, cell in zip(widths, cells, strict=True)]
    return widths


def fitting(widths: list[int], room: int) -> list[int]:
    """Return the indexes of the columns to show in `room` cells, the least important dropped first.

    Columns of rank 0 are kept even if they do not fit. The last column counts with at most MIN_LAST_WIDTH
    cells; the caller cuts it.
    """
    kept = list(range(len(COLUMNS)))
    needs = [*widths[:-1], min(widths[-1], MIN_LAST_WIDTH)]
    while INDENT + sum(needs[n] + GAP for n in kept) - GAP > room:
        worst = max(kept, key=lambda n: COLUMNS[n].rank)
        if COLUMNS[worst].rank == 0:
            break
        kept.remove(worst)
    return kept


def gpu_table(
    block: NodeBlock, widths: list[int], kept: list[int], room: int | None, *, titles: bool
) -> Table:
    """Return the table of one node's GPUs, the columns `kept` of it; `titles`: with a header row.

    The last column is cut at `room` cells (None: never).
    """
    table = Table(box=None, show_header=titles, header_style="dim", pad_edge=False, padding=(0, GAP, 0, 0))
    table.add_column("", width=INDENT - GAP)
    last = len(COLUMNS) - 1
    taken = INDENT + sum(widths[n] + GAP for n in kept if n != last)
    for n in kept:
        column = COLUMNS[n]
        width = widths[n] if n != last or room is None else max(MIN_LAST_WIDTH, min(widths[n], room - taken))
        table.add_column(
            column.title,
            width=width,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
        )
    for cells, style in block.rows:
        table.add_row("", *(Text(cells[n]) for n in kept), style=STYLES[style])
    return table
