"""One frame of the links screen with a matrix of 128 x 128 links that are all new."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.results import PairResult, RankSlot, Results
from gpuwatch.tui.links.screen import LinksScreen
from tests.bench.cpu import Row
from tests.tui.counting import on_terminal, painted
from tests.tui.still import NOW, demo_session, still_app
from tests.tui.still_probes import StillProbing

NODES = 128
FRAMES = 20


def pairs(turn: int) -> dict[tuple[int, int], PairResult]:
    """Every link, with values that differ from turn to turn."""
    return {
        (a, b): PairResult(
            a, b, "same_rail", ok=(a * b + turn) % 97 != 1, latency_us=11.0, spread=0.02,
            bandwidth_gb_per_s=(46.0 + (a * 31 + b * 17 + turn * 13) % 29 / 10)
            * (0.26 if NODES // 2 + turn in (a, b) else 1.0),
        )
        for a in range(NODES)
        for b in range(NODES)
        if a != b
    }  # fmt: skip


async def measure(size: tuple[int, int]) -> tuple[float, float]:
    """CPU ms and bytes per frame."""
    turns = [pairs(0), pairs(1)]
    slots = [RankSlot(number, f"gpu-{number + 1:03}", 0, "H100", 0) for number in range(NODES)]
    results = Results(request=ProbeRequest(), started=NOW, phase="pairs", slots=slots, pairs=turns[0])
    session = demo_session(11)
    session.probes = [StillProbing(results)]
    app = still_app(session)
    async with on_terminal(app, size) as driver:
        app.call_later(app.action_links)
        while not (isinstance(app.screen, LinksScreen) and app.screen.matrix.shape.size == NODES):
            await asyncio.sleep(0.01)
            app.pump()
        await painted(app)
        spent = written = 0.0
        for frame in range(FRAMES):
            results.pairs = turns[(frame + 1) % 2]
            results.version += 1
            driver.written.clear()
            start = time.process_time()
            app.pump()
            await painted(app)
            spent += time.process_time() - start
            written += sum(len(part) for part in driver.written)
    return spent / FRAMES * 1e3, written / FRAMES


def rows(_folder: Path) -> Sequence[Row]:
    """The matrix's lines of the table."""
    spent, written = asyncio.run(measure((200, 60)))
    return [
        Row(
            f"links screen, all of {NODES * (NODES - 1):,} links new in a frame, 200x60",
            f"{spent:.1f} ms CPU, {written / 1e3:.0f} kB to the terminal",
            "<= 20 ms",
            spent <= 20,
            spent / 1e3,
        )
    ]
