"""How far a probe is, on a terminal: the phase, what has been measured, and the time that is left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from gpuwatch.plain import plain
from gpuwatch.probe.results import Phase, Results
from gpuwatch.report.probe_words import counted, rank_name, seats_by_rank

Tell: TypeAlias = Callable[[Results], None]
"""Told the results after every change."""

WORDS: dict[Phase, str] = {
    "connecting": "connecting",
    "asking": "ready",
    "reaching": "trying who reaches whom",
    "starting": "starting the ranks",
    "collectives": "collectives",
    "pairs": "pairs",
    "retesting": "retesting suspects alone",
    "gpus": "GPU checks",
}
SHOWN_PAIRS = 2


@contextlib.contextmanager
def progress_bars() -> Iterator[Tell]:
    """Bars on stderr that are gone afterwards; drawn by the caller's calls alone, without a thread."""
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[told]}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bars:
        task = bars.add_task("connecting", total=None, told="")

        def tell(results: Results) -> None:
            total = results.all_steps or None
            bars.update(
                task,
                description=WORDS.get(results.phase, results.phase),
                total=total,
                completed=min(results.done_steps, results.all_steps),
                told=Text(told(results)).plain,
                refresh=True,
            )

        yield tell


def told(results: Results) -> str:
    """`12/86 steps, 14 rows, 23 pairs, about 31 s left; gpu-003 GPU 4 -> gpu-007 GPU 4`."""
    parts: list[str] = []
    if results.phase == "connecting" and results.nodes:
        parts.append(f"{counted(len(results.nodes), 'node')} answered")
    if results.all_steps:
        parts.append(f"{results.done_steps}/{results.all_steps} steps")
    if results.collectives:
        parts.append(counted(len(results.collectives), "row"))
    if results.pairs:
        parts.append(counted(len(results.pairs), "link"))
    if results.left_s is not None:
        parts.append(f"about {results.left_s:.0f} s left")
    text = ", ".join(parts)
    testing = results.testing
    if testing:
        seats = seats_by_rank(results)
        named = [f"{rank_name(src, seats)} -> {rank_name(dst, seats)}" for src, dst in testing[:SHOWN_PAIRS]]
        more = f" and {len(testing) - SHOWN_PAIRS} more" if len(testing) > SHOWN_PAIRS else ""
        text += f"; {', '.join(named)}{more}"
    return plain(text)
