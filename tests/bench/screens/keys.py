"""From a key to the painted screen, over the demo after its incident; and all its ranks' logs merged."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path

from gpuwatch import wire
from gpuwatch.cli.shared.screens import collect_rarely
from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.logs.data.buffer import Buffer
from gpuwatch.tui.logs.data.merge import Merge
from tests.bench.cpu import Row
from tests.tui.counting import on_terminal, painted
from tests.tui.logs.demo_nodes import DemoLogs
from tests.tui.still import NOW, still_app

SIZE = (160, 45)
KEYS = (
    "1", *repeat("j", 8), "m", "M", "s", "z", "2", *repeat("j", 4), "v", "v", "4", *repeat("j", 6), "tab",
    "6", *repeat("j", 8), "s", "question_mark", "escape", "3", *repeat("k", 8), "e", "L", "L", "L", "5", "1",
)  # fmt: skip
"""All screens, moving on them, and what each changes."""
ROUNDS = 3
GONE_S = 0.5
"""A screen that a key has closed is painted no more."""
RANKS = 128


class TimedLogs(DemoLogs):
    """Nodes whose answers are timed: what they cost is no cost of the cockpit."""

    spent = 0.0
    """CPU seconds."""

    def _ask(self, stream: LogStream, request: wire.AnyRequest) -> LogStream:
        began = time.process_time()
        try:
            return super()._ask(stream, request)
        finally:
            self.spent += time.process_time() - began


async def frame(app: GpuwatchApp) -> None:
    """Let the screen paint."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(painted(app), GONE_S)


async def press(app: GpuwatchApp, key: str) -> float:
    """CPU seconds from a key to the escape codes of what it changed."""
    began = time.process_time()
    app.simulate_key(key)
    await frame(app)
    app.pump()
    await frame(app)
    return time.process_time() - began


@contextlib.contextmanager
def as_the_program_collects() -> Iterator[None]:
    """The collector of reference cycles as `gpuwatch` sets it before it opens the screens."""
    before = gc.get_threshold()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


async def measure() -> tuple[list[float], float]:
    """CPU seconds of each key, and of merging the logs of all ranks."""
    now = [NOW]
    session = TimedLogs()
    app = still_app(session, 95, clock=lambda: now[0])
    async with on_terminal(app, SIZE):
        keys = [await press(app, key) for key in chain.from_iterable(repeat(KEYS, ROUNDS))]
        await press(app, "4")
        began, session.spent = time.process_time(), 0.0
        await press(app, "m")
        while sum(bool(buffer.lines) for buffer in merged_of(app)) < RANKS:
            now[0] += 0.125
            app.pump()
            await frame(app)
        return keys, time.process_time() - began - session.spent


def merged_of(app: GpuwatchApp) -> list[Buffer]:
    """The files of the merged view."""
    view = app.workspace.opened.merged
    return list(view.feed.buffers) if view is not None and isinstance(view.feed, Merge) else []


def rows(folder: Path) -> Sequence[Row]:
    """The slowest of twenty keys, and `m` on the incident."""
    os.environ["XDG_CACHE_HOME"] = str(folder)
    with as_the_program_collects():
        keys, merged = asyncio.run(measure())
    slow = sorted(keys)[int(len(keys) * 0.95)]
    return [
        Row(
            f"from a key to the painted screen, {len(keys)} keys, {SIZE[0]}x{SIZE[1]}, CPU",
            f"95 % within {slow * 1e3:.0f} ms",
            "<= 100 ms",
            slow <= 0.1,
            slow,
        ),
        Row(
            f"m on the incident: the logs of {RANKS} ranks merged and folded, CPU",
            f"{merged:.2f} s",
            "<= 2 s",
            merged <= 2.0,
            merged,
        ),
    ]
