"""One frame of the fleet screen with 1,024 nodes x 8 GPUs, turned into escape codes."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from gpuwatch.cli.watch import collect_rarely
from gpuwatch.link.demo.links import arrivals
from gpuwatch.link.inbox import Arrival
from gpuwatch.tui.widgets.heat_map import HeatMap
from gpuwatch.wire import Sample
from tests.bench.cpu import Row
from tests.tui.counting import on_terminal, painted
from tests.tui.shots import plan_for
from tests.tui.still import NOW, demo_session, still_app

NODES = 1024
FRAMES = 20


def ticks() -> list[list[Arrival]]:
    """Two ticks of the whole fleet that differ in every value."""
    found = []
    for second in (12.0, 13.0):
        last: dict[str, Arrival] = {}
        for arrival in arrivals(plan_for(NODES), second, NOW):
            if isinstance(arrival.what, Sample):
                last[arrival.node] = arrival
        found.append([replace(arrival, at=NOW) for arrival in last.values()])
    return found


async def measure(share: int) -> tuple[float, float, float]:
    """CPU ms per frame of the heat map alone and of the whole screen, and bytes per frame.

    Args:
        share: one of so many nodes brings new values in a frame (8 Hz and ticks of 1 s: 8).
    """
    collect_rarely()
    now = NOW
    session = demo_session(11, plan_for(NODES))
    app = still_app(session, clock=lambda: now)
    both = ticks()
    async with on_terminal(app, (200, 60)) as driver:
        heat = app.screen.query_one(HeatMap)
        alone = whole = written = 0.0
        for frame in range(-share, FRAMES):
            if frame == 0:  # what came before only brought the nodes out of step
                alone = whole = written = 0.0
            for arrival in both[frame // share % 2][frame % share :: share]:
                session.fleet.apply(replace(arrival, at=now))
            now += 0.125
            driver.written.clear()
            start = time.process_time()
            app.pump()
            await painted(app)
            whole += time.process_time() - start
            written += sum(len(part) for part in driver.written)
            start = time.process_time()
            heat.forget()
            heat.refresh()
            await painted(app)
            alone += time.process_time() - start
    return alone / FRAMES * 1e3, whole / FRAMES * 1e3, written / FRAMES


def rows() -> Sequence[Row]:
    """The heat map's line of the table."""
    alone, whole, written = asyncio.run(measure(1))
    _, usual, sent = asyncio.run(measure(8))
    return [
        Row(f"heat map frame at {NODES * 8:,} GPUs, 200x60", f"{alone:.1f} ms CPU", "<= 20 ms", alone <= 20),
        Row(
            "whole fleet screen, an eighth of the nodes new (8 Hz, 1 s ticks)",
            f"{usual:.1f} ms CPU, {sent / 1e3:.0f} kB to the terminal",
            "<= 30 ms",
            usual <= 30,
        ),
        Row(
            "whole fleet screen, every value of every GPU new",
            f"{whole:.1f} ms CPU, {written / 1e3:.0f} kB to the terminal",
            "",
            None,
        ),
    ]


if __name__ == "__main__":
    print(*rows(), sep="\n", file=sys.stdout)
