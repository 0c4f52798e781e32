"""Formats the time of a step at several scales, side by side: as a table, as lines and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuwatch.blocks.model import Line
from gpuwatch.diagnose.traces.scale_comparison import PARTS, ScaleTimes, growth
from gpuwatch.number_text import plural
from gpuwatch.plain import plain
from gpuwatch.report.once.json_output import Facts
from gpuwatch.report.output.console import show

NO_STEPS = (
    "A trace has no steps (prof.step()): its times are those of the whole trace, and nothing is compared."
)
DIGITS = 4


def print_scales(scales: Sequence[ScaleTimes], console: Console) -> None:
    """Print a step at each scale; nothing without scales."""
    if not scales:
        return
    show(console, Line(""))
    show(console, Line("A step by scale (mean of the ranks)"))
    console.print(scale_table(scales))
    for line in scale_lines(scales):
        show(console, line)


def scale_table(scales: Sequence[ScaleTimes]) -> Table:
    """Return a table with a row for each scale, fewest ranks first; times in milliseconds per step."""
    table = Table(box=None, pad_edge=False)
    table.add_column("ranks", justify="right", no_wrap=True)
    for heading in ("step ms", *(part.replace("_", " ") for part in PARTS), "x smallest"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("traces")
    smallest = min(scales, key=lambda each: each.ranks)
    for each in sorted(scales, key=lambda one: one.ranks):
        times = (each.step_ms, *(each.parts_ms[part] for part in PARTS))
        ratio = (
            each.step_ms / smallest.step_ms if smallest.step_ms and each.steps and smallest.steps else None
        )
        table.add_row(
            f"{each.ranks:,}",
            *(f"{value:,.2f}" for value in times),
            "-" if ratio is None else f"{ratio:.2f}",
            Text(plain(each.name)),
        )
    return table


def scale_lines(scales: Sequence[ScaleTimes]) -> Iterator[Line]:
    """Yield a line for each part that makes a step longer on more ranks, in milliseconds.

    A warning precedes them if a trace has no steps.
    """
    if any(not each.steps for each in scales):
        yield Line(NO_STEPS, "warning", hang=2)
    for each in growth(scales):
        ranks = plural(each.ranks, "rank")
        yield Line(
            f"on {ranks} a step takes {each.step_ms:,.2f} ms longer than on {each.baseline_ranks}:"
            f" {each.part_ms:,.2f} ms more {each.part.replace('_', ' ')}",
            hang=2,
        )


def scale_facts(scales: Sequence[ScaleTimes]) -> list[Facts]:
    """Return the scales as data, fewest ranks first."""
    return [
        {
            "name": plain(each.name),
            "ranks": each.ranks,
            "traced_ranks": each.traced_ranks,
            "steps": each.steps,
            "step_ms": round(each.step_ms, DIGITS),
            **{f"{part}_ms": round(each.parts_ms[part], DIGITS) for part in PARTS},
            "communication_busy_ms": round(each.communication_busy_ms, DIGITS),
        }
        for each in sorted(scales, key=lambda one: one.ranks)
    ]
