"""The log pane while its file grows by 5,000 lines a second, from the frame's bytes to escape codes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuwatch import wire
from gpuwatch.cli.shared.screens import collect_rarely
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.tui.logs.screen import LogsScreen
from tests.bench.cpu import Row, rss_bytes
from tests.tui.counting import on_terminal, painted
from tests.tui.logs.log_nodes import FakeFile, LogSession
from tests.tui.still import NOW, still_app

PATH = "/scratch/run7/logs/rank_0.log"
HZ = 8
LINES_PER_S = 5_000
BEFORE = 1_000_000
FRAMES = 80
BATCH = 5_000


def batches(stream: int, first: int, size: int) -> Iterator[bytes]:
    """Encoded frames of log lines, endless: steps of a training, every 50th a warning."""
    number, offset = first, first * 110
    while True:
        lines = []
        for n in range(number, number + size):
            level: wire.Severity | None = "warning" if n % 50 == 0 else None
            word = "WARNING" if level else "INFO"
            text = (
                f"2027-01-15 08:{n // 60 % 60:02}:{n % 60:02}.{n % 1000:03} {word} train.loop step {n} "
                f"loss {9 - n % 8000 / 1000:.4f} grad_norm {n % 97 / 50:.3f} tokens/s {40_000 + n % 777}"
            )
            lines.append(wire.LogLine(offset, offset + 110, text, NOW + n / 100, NOW + n / 100, None, level))
            offset += 110
        number += size
        yield wire.encode(wire.Lines(t=NOW, seq=1, id=stream, file=PATH, lines=lines, size=offset))


async def measure() -> tuple[float, float, int]:
    """CPU ms a frame, kB to the terminal a frame, and how much memory the growth after 1 M lines took."""
    collect_rarely()
    now = NOW
    session = LogSession({"gpu-001": [FakeFile(PATH, [0])]})
    app = still_app(session, clock=lambda: now)
    async with on_terminal(app, (200, 50)) as driver:
        app.call_later(app.action_logs)
        while not (isinstance(app.screen, LogsScreen) and app.screen.workspace.opened.views):
            await asyncio.sleep(0.01)
            app.pump()
        stream = next(number for _, number in session.fleet.streams)
        for frame in _first(batches(stream, 0, BATCH), BEFORE // BATCH):
            session.fleet.apply(Arrival("gpu-001", now, wire.decode(frame)))
            app.pump()
        await painted(app)
        grown = rss_bytes(os.getpid())
        frames = list(_first(batches(stream, BEFORE, LINES_PER_S // HZ), FRAMES))
        spent = written = 0.0
        for frame in frames:
            now += 1 / HZ
            driver.written.clear()
            start = time.process_time()
            session.fleet.apply(Arrival("gpu-001", now, wire.decode(frame)))
            app.pump()
            await painted(app)
            spent += time.process_time() - start
            written += sum(len(part) for part in driver.written)
        return spent / FRAMES * 1e3, written / FRAMES / 1e3, rss_bytes(os.getpid()) - grown


def _first(frames: Iterator[bytes], count: int) -> Iterator[bytes]:
    return (frame for _, frame in zip(range(count), frames, strict=False))


def rows(_folder: Path) -> Sequence[Row]:
    """The log pane's line of the table."""
    spent, written, more = asyncio.run(measure())
    share = spent * HZ / 1e3
    return [
        Row(
            f"log pane growing by {LINES_PER_S:,} lines/s, 200x50, after 1 M lines, 8 Hz",
            f"{share:.1%} of a core ({spent:.1f} ms and {written:.0f} kB a frame)",
            "<= 20 %",
            share <= 0.20,
            share,
        ),
        Row(
            f"memory that {FRAMES * LINES_PER_S // HZ:,} further lines take",
            f"{more / 2**20:+.0f} MiB",
            "bounded",
            more < 16 * 2**20,
            more,
        ),
    ]
