"""Profiles of running ranks as text: differing frames, flame graphs, hottest frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuwatch.blocks.model import Line
from gpuwatch.diagnose.profiles.hot_frames import differences, hot_frames
from gpuwatch.diagnose.profiles.profiled_rank import ProfiledRank
from gpuwatch.diagnose.profiles.sentences import (
    difference_row,
    doubts,
    hot_row,
    measured_cost,
    samples_text,
)
from gpuwatch.report.output.console import STYLES, console_on, show
from gpuwatch.report.profile.flame_text import flame_lines
from gpuwatch.report.profile.kernel_text import print_kernels

MAX_ROWS = 12
MAX_THREADS = 6
PIPE_COLUMNS, MAX_COLUMNS = 100, 240
"""Width of a flame graph in columns: in a pipe, and the maximum."""


def print_profiles(profiles: Sequence[ProfiledRank], rate: int, out: TextIO) -> None:
    """Write the report on profiles; if there are several, the first is compared with the second.

    `rate`: samples per second.
    """
    with console_on(out) as console:
        for each in profiles:
            show(console, Line(samples_text(each), "plain" if each.main else "warning", hang=2))
            if cost := measured_cost(each):
                show(console, Line(f"  {cost}", "muted", hang=4))
            for doubt in doubts(each, rate):
                show(console, Line(f"  {doubt}", "warning", hang=4))
        sampled = [each for each in profiles if each.main is not None]
        if len(sampled) > 1:
            _print_differences(sampled[0], sampled[1], console)
        _print_flames(sampled, console)
        for each in sampled[:1]:
            _print_hot(each, console)
        for each in profiles:
            print_kernels(each, console)


def _print_differences(mine: ProfiledRank, other: ProfiledRank, console: Console) -> None:
    if mine.main is None or other.main is None:
        return
    show(console, Line(""))
    found = differences(hot_frames(mine.main), hot_frames(other.main))
    if not found:
        words = f"ranks {mine.rank} and {other.rank} spend their time in the same frames (within 3 points)"
        show(console, Line(words, "ok"))
        return
    show(console, Line("Frames that differ: self time in % of the main thread's time"))
    table = _table("points", f"rank {mine.rank}", f"rank {other.rank}")
    for each in found[:MAX_ROWS]:
        *numbers, frame = difference_row(each)
        style = STYLES["warning"] if each.points > 0 else ""
        table.add_row(*(Text(cell, style) for cell in numbers), Text(frame))
    console.print(table)


def _print_flames(profiles: Sequence[ProfiledRank], console: Console) -> None:
    columns = min(console.width, MAX_COLUMNS) if console.is_terminal else PIPE_COLUMNS
    flames = [(f"Main thread of rank {each.rank}", each.main) for each in profiles if each.main is not None]
    for line in flame_lines(flames, columns):
        console.print(line, no_wrap=True)


def _print_hot(profile: ProfiledRank, console: Console) -> None:
    if profile.main is None:
        return
    show(console, Line(""))
    show(
        console,
        Line(f"Main thread of rank {profile.rank}, % of its time, by the time in a frame itself"),
    )
    table = _table("itself", "with calls")
    for frame in hot_frames(profile.main)[:MAX_ROWS]:
        table.add_row(*hot_row(frame))
    console.print(table)
    for thread in profile.threads[1 : 1 + MAX_THREADS]:
        hottest = next(iter(hot_frames(thread)), None)
        if hottest is not None:
            words = f"  thread {thread.name}: {hottest.own_pct:.0f} % in {hottest.code.short}"
            show(console, Line(words, "muted", hang=4))


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("frame", overflow="fold")
    return table
