"""The screen over 1,000 nodes with 8 GPUs each: judged and painted four times a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gpuwatch.cli.shared.screens import collect_rarely
from gpuwatch.clock import SessionClock
from gpuwatch.fleet.stepwise import Steps
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.opening import Links
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.session import Session
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.wire import GpuFast, GpuSample, Hello, Sample
from tests.bench.cpu import Row
from tests.bench.live.simulated_agent import fast
from tests.tui.counting import on_terminal, painted

NODES, GPUS = 1000, 8
HZ, SECONDS, SETTLE_S = 4, 20, 8
EPOCH = 1.7e9
MAX_SHARE, MAX_BLOCK_S, MAX_KEY_S = 0.6, 0.02, 0.1


class Cluster:
    """A session over nodes that send what the caller asks for, on a clock that the caller moves."""

    def __init__(self) -> None:
        self.now = 10_000.0
        self.names = [f"gpu-{number:04d}" for number in range(NODES)]
        plan = Plan(tuple(NodeSpec(name) for name in self.names), interval_s=1.0, source="bench")
        self.clock = SessionClock(lambda: self.now, lambda: EPOCH + self.now)
        self.session = Session(plan, clock=self.clock, links=lambda _inbox: Links(()))
        self._values = [msgspec.convert(fast(number), GpuFast) for number in range(100)]

    def connect(self) -> None:
        """Let every node connect and list its GPUs."""
        for name in self.names:
            gpus = [
                {"uuid": f"{name}-{index}", "index": index, "name": "H100", "memory_total_bytes": 80 << 30}
                for index in range(GPUS)
            ]
            facts = {"host": name, "agent": "1", "python": "3", "pid": 1, "interval_s": 1.0, "gpus": gpus}
            hello = msgspec.convert({"t": EPOCH + self.now, "seq": 1, **facts}, Hello)
            self.session.inbox.put(Arrival(name, self.now, LinkStatus("live")))
            self.session.inbox.put(Arrival(name, self.now, hello))

    def tick(self, frame: int) -> None:
        """Let time pass until the next frame; meanwhile some of the nodes send a sample."""
        self.now += 1 / HZ
        at, tick = EPOCH + self.now, int(self.now)
        for name in self.names[frame % HZ :: HZ]:
            gpus = [
                GpuSample(uuid=f"{name}-{index}", fast=replace(self._values[(tick + index) % 100], t=at))
                for index in range(GPUS)
            ]
            self.session.inbox.put(Arrival(name, self.now, Sample(t=at, seq=tick, gpus=gpus)))


async def measure() -> tuple[float, float, list[float]]:
    """Share of a core, longest block of the event loop (CPU seconds), and CPU seconds from keys to paints."""
    collect_rarely()
    cluster = Cluster()
    app = GpuwatchApp(cluster.session, clock=cluster.clock, hz=HZ)
    blocks: list[float] = []
    advance = app.slices._advance

    def timed(steps: Steps[None], seconds: float) -> bool:
        began = time.thread_time()
        is_over = advance(steps, seconds)
        blocks.append(time.thread_time() - began)
        return is_over

    app.slices._advance = timed  # type: ignore[method-assign]
    async with on_terminal(app, (200, 60)) as driver:
        if app._timer is not None:
            app._timer.pause()
        cluster.connect()
        keys: list[float] = []
        spent = 0.0
        for frame in range(-SETTLE_S * HZ, SECONDS * HZ):
            cluster.tick(frame)
            if frame == 0:
                blocks.clear()
                keys.clear()
                spent = 0.0
            began = time.process_time()
            work = asyncio.create_task(app._pump_in_slices())
            if frame % 2:
                await asyncio.sleep(0)
                pressed = time.process_time()
                driver.written.clear()
                app.simulate_key("down" if frame % 4 == 1 else "up")
                while not driver.written:
                    await asyncio.sleep(0)
                keys.append(time.process_time() - pressed)
            await work
            await painted(app)
            spent += time.process_time() - began
    return spent / SECONDS, max(blocks), sorted(keys)


def rows(_folder: Path) -> Sequence[Row]:
    """CPU, the longest block, and keys that are pressed while a frame is worked out."""
    share, block, keys = asyncio.run(measure())
    slow = keys[int(len(keys) * 0.95)]
    what = f"screen over {NODES:,} nodes x {GPUS} GPUs at 1 Hz, {HZ} frames a second, 200x60"
    return [
        Row(
            f"{what}: samples, judgement, paint",
            f"{share:.1%} of a core",
            f"<= {MAX_SHARE:.0%}",
            share <= MAX_SHARE,
            share,
        ),
        Row(
            "its longest time without a look at the keyboard",
            f"{block * 1e3:.0f} ms of CPU",
            f"<= {MAX_BLOCK_S * 1e3:.0f} ms",
            block <= MAX_BLOCK_S,
            block,
        ),
        Row(
            f"from a key to the painted screen meanwhile, {len(keys)} keys, CPU",
            f"median {keys[len(keys) // 2] * 1e3:.0f} ms, 95 % within {slow * 1e3:.0f} ms",
            f"<= {MAX_KEY_S * 1e3:.0f} ms",
            slow <= MAX_KEY_S,
            slow,
        ),
    ]
