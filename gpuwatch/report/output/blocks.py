"""Prints blocks and plots on a terminal or into a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import rich.table
from rich import box
from rich.console import Console
from rich.text import Text

from gpuwatch.blocks.lines import text_lines
from gpuwatch.blocks.model import PAIRS, Block, Heading, Item, Line, Table
from gpuwatch.blocks.plot import Plot
from gpuwatch.report.output.console import STYLES, show
from gpuwatch.report.output.terminal_plot import plot_lines

PLOT_WIDTH = 100
"""Columns of a plot if no terminal sets a width."""
MAX_FOLDED_ROWS = 12


def print_blocks(blocks: Iterable[Block], console: Console) -> None:
    """Print the blocks of a report; of folded tables only the first rows."""
    before: Block | None = None
    for block in blocks:
        match block:
            case Heading(level=1):
                console.print(Text(block.text, style="bold"))
            case Heading():
                console.print()
                console.print(Text(block.text, style="bold underline"))
            case Table():
                _print_table(block, console)
            case Plot():
                console.print(end="\n" if isinstance(before, Plot) else "")
                _print_plot(block, console)
            case Item():
                note = block.sign == "warning"
                show(console, Line(f"! {block.text}", "warning") if note else Line(block.text, block.style))
            case _:
                for line in text_lines([block]):
                    show(console, line)
        before = block


def _print_table(table: Table, console: Console) -> None:
    if table.title:
        console.print()
        console.print(Text(table.title))
    console.print(_rich_table(table))
    hidden = len(table.rows) - MAX_FOLDED_ROWS
    if table.folded and hidden > 0:
        console.print(Text(f"{hidden} more; gpuwatch runs show prints them", style=STYLES["muted"]))


def _rich_table(table: Table) -> rich.table.Table:
    is_pairs = table.columns == PAIRS
    drawn = rich.table.Table(
        box=box.SIMPLE_HEAD, show_header=not is_pairs, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for name in table.columns:
        drawn.add_column(Text(name), overflow="fold")
    for row in table.rows[:MAX_FOLDED_ROWS] if table.folded else table.rows:
        drawn.add_row(*map(Text, row))
    return drawn


def _print_plot(plot: Plot, console: Console) -> None:
    """Print a plot drawn with characters."""
    has_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    width = min(console.width, PLOT_WIDTH) if console.color_system is None else console.width
    for line in plot_lines(plot, width, has_unicode=has_unicode, has_colour=bool(console.color_system)):
        console.print(line, no_wrap=True, crop=True)
