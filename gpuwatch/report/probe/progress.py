"""Shows the progress of a probe on a terminal: phase, measurements, remaining time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

from rich.progress import BarColumn, Progress, TextColumn

from gpuwatch.number_text import counted, listed
from gpuwatch.plain import plain
from gpuwatch.probe.results import Phase, Results, slots_by_rank
from gpuwatch.report.output.console import InertConsole
from gpuwatch.report.probe.format import rank_name

Report: TypeAlias = Callable[[Results], None]
"""A function that is called with the results after every change."""

WORDS: dict[Phase, str] = {
    "connecting": "connecting",
    "asking": "ready",
    "reaching": "reachability",
    "starting": "starting ranks",
    "collectives": "collectives",
    "pairs": "pairs",
    "retesting": "retests",
    "gpus": "GPU checks",
}
STAGE_COLUMNS = max(map(len, WORDS.values()))
BAR = 12
SHOWN_PAIRS = 2
WIDE_COLUMNS = 120
"""Width from which the current pairs are shown."""


@contextlib.contextmanager
def progress_bars() -> Iterator[Report]:
    """Show temporary bars on stderr; yield a function to call with the results, which redraws them."""
    columns = (
        TextColumn("{task.elapsed:3.0f}s"),
        TextColumn("{task.description}"),
        BarColumn(BAR),
        TextColumn("{task.fields[reported]}", markup=False),
    )
    console = InertConsole(stderr=True)
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bars:
        task = bars.add_task("connecting", total=None, reported="")

        def report(results: Results) -> None:
            total = results.all_steps or None
            bars.update(
                task,
                description=f"{WORDS.get(results.phase, results.phase):{STAGE_COLUMNS}}",
                total=total,
                completed=min(results.done_steps, results.all_steps),
                reported=reported(results, pairs=console.width >= WIDE_COLUMNS),
                refresh=True,
            )

        yield report


def reported(results: Results, *, pairs: bool = True) -> str:
    """Return `12/86 steps, 14 rows, 23 links, 31 s left; gpu-003 GPU 4 -> gpu-007 GPU 4`.

    `pairs`: append the first pairs that are being measured.
    """
    parts: list[str] = []
    if results.phase == "connecting" and results.nodes:
        answered = sum(node.inventory is not None or node.problem is not None for node in results.nodes)
        parts.append(f"{answered} of {counted(len(results.nodes), 'node')} answered")
    if results.all_steps:
        parts.append(f"{results.done_steps}/{results.all_steps} steps")
    if results.collectives:
        parts.append(counted(len(results.collectives), "row"))
    if results.pairs:
        parts.append(counted(len(results.pairs), "link"))
    if results.left_s is not None:
        parts.append(f"{results.left_s:.0f} s left")
    text = ", ".join(parts)
    testing = results.testing
    if testing and pairs:
        slots = slots_by_rank(results)
        named = [f"{rank_name(src, slots)} -> {rank_name(dst, slots)}" for src, dst in testing]
        text += f"; {listed(named, SHOWN_PAIRS)}"
    return plain(text)
