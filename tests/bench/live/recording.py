"""Recordings of simulated nodes with 8 GPUs whose ranks each log a step every 3 s: size, jumps, CPU."""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from gpuwatch.clock import SessionClock
from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.demo.links import EPOCH, arrivals
from gpuwatch.link.recording.tee import KEY_EVERY_S, Item, StreamTee
from gpuwatch.link.recording.writer import RecordingWriter
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.session.replay_session import ReplaySession
from gpuwatch.wire import Sample, encode
from tests.bench.cpu import Row
from tests.link.recording.recordings import NoBook

NODES, DAY_S, REPEATED_S = 64, 86_400, 40
"""Nodes of the day, its seconds, and those of the story that are repeated."""
MANY, MANY_S, WARM_S = 1_000, 12, 2
"""Nodes of the CPU figure, and seconds of the story: all, and those before the clock runs."""
JUMPS = 15


def rows(folder: Path) -> Sequence[Row]:
    """Size and jumps of a day of 64 nodes; CPU of recording 1,000 nodes."""
    day, cpu = folder / "day.gpw", folder / "many.gpw"
    recorded(day, NODES, REPEATED_S)
    repeat(day)
    per_minute = day.stat().st_size / (DAY_S / 60) / NODES * 100
    jumps = jump_cpu_s(day)
    share = recorded(cpu, MANY, MANY_S)
    return [
        Row(
            f"recording, 24 h of {NODES} nodes ({day.stat().st_size / 1e9:.1f} GB)",
            f"{per_minute / 1e6:.2f} MB a minute and 100 nodes",
            "<= 3 MB",
            per_minute <= 3e6,
            per_minute,
        ),
        Row(
            f"a jump in it, CPU: median of {JUMPS} (longest {max(jumps):.2f} s)",
            f"{statistics.median(jumps):.2f} s",
            "<= 0.3 s",
            statistics.median(jumps) <= 0.3,
            statistics.median(jumps),
        ),
        Row(
            f"recording {MANY:,} nodes, a key frame every {KEY_EVERY_S:.0f} s",
            f"{share:.1%} of a core",
            "<= 10 %",
            share <= 0.1,
            share,
        ),
    ]


def plan_of(nodes: int) -> Plan:
    """That many simulated nodes."""
    names = (f"gpu-{number:04d}" for number in range(1, nodes + 1))
    return replace(demo_plan(), nodes=tuple(NodeSpec(name, link="demo", slots=8) for name in names))


def story(plan: Plan, seconds: int) -> Mapping[int, Sequence[Arrival]]:
    """Tenth of a second -> what arrives in it, samples with the line that they came as."""
    found: dict[int, list[Arrival]] = defaultdict(list)
    for one in arrivals(plan, seconds, seconds):
        line = encode(one.what).rstrip() if isinstance(one.what, Sample) else None
        found[int(one.at * 10)].append(replace(one, line=line))
    return found


def recorded(path: Path, nodes: int, seconds: int) -> float:
    """Record the story; return the share of a core that it takes."""
    now = 0.0
    clock = SessionClock(lambda: now, lambda: EPOCH + now)
    plan = plan_of(nodes)
    told = story(plan, seconds)
    tee = StreamTee([spec.name for spec in plan.nodes], NoBook(), clock)
    writer = RecordingWriter(path, plan, tee.nodes)
    tee.attach(writer)
    began = time.process_time()
    for tenth in range(seconds * 10):
        if tenth == WARM_S * 10:
            began = time.process_time()
        now = (tenth + 1) / 10
        tee.take(told.get(tenth, ()), now)
    used = time.process_time() - began
    began = time.process_time()
    tee.attach(NoSink(), past=False)
    key_frame = time.process_time() - began
    writer.close()
    return used / (seconds - WARM_S) + key_frame / KEY_EVERY_S


class NoSink:
    """Takes items and drops them."""

    def put(self, item: Item) -> None:
        """Drop it."""


def repeat(path: Path) -> None:
    """Append copies of the recording to itself until it is a day long."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA synchronous = OFF")
        first, count = file.execute("SELECT min(first), max(id) FROM block").fetchone()
        last = file.execute("SELECT max(last) FROM block").fetchone()[0]
        for copy in range(1, DAY_S // REPEATED_S):
            later = copy * (last - first)
            file.execute("BEGIN")
            file.execute(
                "INSERT INTO block SELECT id + ?, first + ?, last + ?, wall, frames, findings, data"
                " FROM block WHERE id <= ?",
                (copy * count, later, later, count),
            )
            file.execute(
                "INSERT OR IGNORE INTO key_frame SELECT at + ?, block + ?, data FROM key_frame"
                " WHERE block <= ?",
                (later, copy * count, count),
            )
            file.execute("COMMIT")


def jump_cpu_s(path: Path) -> Sequence[float]:
    """CPU seconds of jumps all over a recording."""
    found = []
    with ReplaySession(path) as replay:
        first, last = replay.extent
        for number in range(JUMPS):
            began = time.thread_time()
            replay.go_to(first + (last - first) * (number + 0.5) / JUMPS)
            found.append(time.thread_time() - began)
        assert len(replay.fleet.nodes) == NODES
    assert last - first > 0.9 * DAY_S
    return found
