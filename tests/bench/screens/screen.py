"""One frame of the fleet screen (8,192 GPUs) and of the training screen (1,024 ranks), as escape codes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs
from msgspec.structs import replace

from gpuwatch.cli.shared.screens import collect_rarely
from gpuwatch.link.demo.links import arrivals
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.tui.fleet.heat_map import HeatMap
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.wire import Progress, Sample
from tests.bench.cpu import Row
from tests.tui.counting import on_terminal, painted
from tests.tui.shots import plan_for
from tests.tui.still import NOW, demo_session, still_app

NODES = 1024
RANK_NODES = 128
"""1,024 ranks."""
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


async def measure(share: int, *, folded: bool = False) -> tuple[float, float, float]:
    """CPU ms per frame of the heat map alone and of the whole screen, and bytes per frame.

    Args:
        share: one of so many nodes brings new values in a frame (8 Hz and ticks of 1 s: 8).
        folded: whether the map has a cell for each node of a group, as so large a fleet has unasked.
    """
    collect_rarely()
    now = NOW
    session = demo_session(11, plan_for(NODES))
    app = still_app(session, clock=lambda: now)
    both = ticks()
    async with on_terminal(app, (200, 60)) as driver:
        heat = app.screen.query_one(HeatMap)
        await painted(app)
        if not folded:
            assert isinstance(app.screen, FleetScreen)
            app.screen.action_folding()  # the only way folds by name; then none
        assert (heat.shown.folding is not None) == folded
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


async def measure_training() -> tuple[float, float]:
    """CPU ms per frame of the training screen with 1,024 ranks that all move: the mean and the worst.

    Every GPU has new values and every rank a new step once a second, as often as the screen works the job out
    anew; an eighth of the nodes brings its values in each frame.
    """
    collect_rarely()
    now = NOW
    session = demo_session(11, plan_for(RANK_NODES))
    app = still_app(session, clock=lambda: now)
    before = arrivals(plan_for(RANK_NODES), 12, NOW)
    last = {(each.node, type(each.what), getattr(each.what, "rank", None)): each for each in before}
    samples = [each for each in last.values() if isinstance(each.what, Sample)]
    reported = [each.what for each in last.values() if isinstance(each.what, Progress)]
    nodes = {each.rank: key[0] for key, a in last.items() if isinstance(each := a.what, Progress)}
    costs = []
    async with on_terminal(app, (200, 60)):
        app.call_later(app.action_training)
        while app.where != "training":
            await asyncio.sleep(0.01)
        await painted(app)
        if app._timer is not None:
            app._timer.pause()  # or some frames would be two
        for frame in range(3 * FRAMES):
            now += 0.125
            for arrival in samples[frame % 8 :: 8]:
                session.fleet.apply(replace(arrival, at=now))
            for each in reported if frame % 8 == 0 else ():
                fields = {**each.fields, "step": 3000 + frame}
                session.fleet.apply(Arrival(nodes[each.rank], now, structs.replace(each, fields=fields)))
            start = time.process_time()
            app.pump()
            await painted(app)
            costs.append((time.process_time() - start) * 1e3)
    steady = costs[8:]
    return sum(steady) / len(steady), max(steady)


def rows(_folder: Path) -> Sequence[Row]:
    """The heat map's line of the table."""
    alone, whole, written = asyncio.run(measure(1))
    _, usual, sent = asyncio.run(measure(8))
    _, groups, sent_folded = asyncio.run(measure(8, folded=True))
    mean, most = asyncio.run(measure_training())
    return [
        Row(
            f"heat map frame at {NODES * 8:,} GPUs, 200x60",
            f"{alone:.1f} ms CPU",
            "<= 20 ms",
            alone <= 20,
            alone / 1e3,
        ),
        Row(
            "whole fleet screen, an eighth of the nodes new (8 Hz, 1 s ticks)",
            f"{usual:.1f} ms CPU, {sent / 1e3:.0f} kB to the terminal",
            "<= 30 ms",
            usual <= 30,
            usual / 1e3,
        ),
        Row(
            "the same, folded into groups: a cell for each node",
            f"{groups:.1f} ms CPU, {sent_folded / 1e3:.0f} kB to the terminal",
            "<= 30 ms",
            groups <= 30,
            groups / 1e3,
        ),
        Row(
            "whole fleet screen, every value of every GPU new",
            f"{whole:.1f} ms CPU, {written / 1e3:.0f} kB to the terminal",
            "",
            None,
            whole / 1e3,
        ),
        Row(
            f"training screen, {RANK_NODES * 8:,} ranks that all move, 200x60",
            f"{mean:.1f} ms CPU a frame, {most:.1f} ms where the job is worked out anew",
            "<= 20 ms",
            mean <= 20,
            mean / 1e3,
        ),
    ]
