"""What reaches the terminal: how much, and nothing that a node could steer it with. Counts, never clocks."""

from __future__ import annotations

import re

import pytest

from gpuwatch import wire
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.tui.fleet.screen import FleetScreen
from tests.tui.counting import on_terminal, painted
from tests.tui.robustness.hostile import hostile_session
from tests.tui.shots import plan_for
from tests.tui.still import NOW, StillSession, demo_session, still_app

OWN_SEQUENCE = re.compile(r"\x1b\[(?:\d+(?:;\d+)*[mH]|\?2026[hl]|\?25[hl])|\x1b\]22;[a-z]+\x07")
"""All that painting needs: colours, cursor positions, synchronized output, shapes of cursor and pointer."""


def tick(session: StillSession, name: str, percent: float) -> None:
    """One new sample of one node."""
    gpus = [
        wire.GpuSample(g.info.uuid, fast=wire.GpuFast(t=60.0, utilization_pct=percent))
        for g in session.fleet.nodes[name].gpu_list()
    ]
    session.waiting.append(Arrival(name, NOW, wire.Sample(t=60.0, seq=1, gpus=gpus)))


async def test_a_frame_without_news_sends_nothing() -> None:
    app = still_app(demo_session(30))
    async with on_terminal(app, (120, 40)) as driver:
        for _ in range(3):
            app.pump()
            await painted(app)
        assert "".join(driver.written) == ""


async def test_news_of_one_node_repaints_its_lines_only() -> None:
    session = demo_session(30)
    app = still_app(session)
    async with on_terminal(app, (120, 40)) as driver:
        screen = app.screen
        assert isinstance(screen, FleetScreen)
        before = (screen.heat.rows_painted, screen.table.rows_painted)
        tick(session, "gpu-007", 55.0)
        app.pump()
        await painted(app)
        assert screen.heat.rows_painted - before[0] == 1
        assert screen.table.rows_painted - before[1] == 1
        sent = "".join(driver.written)
        assert 0 < len(sent) < 4_000
        assert "55" in sent


async def test_a_frame_of_8192_gpus_is_bounded() -> None:
    session = demo_session(0, plan_for(1024))
    app = still_app(session)
    async with on_terminal(app, (200, 60)) as driver:
        for name in list(session.fleet.nodes):
            tick(session, name, 41.0)
        app.pump()
        await painted(app)
        assert len("".join(driver.written)) < 200_000


@pytest.mark.sampled(1)
@pytest.mark.parametrize("no_color", [False, True])
async def test_no_byte_of_a_node_steers_the_terminal(no_color: bool) -> None:
    app = still_app(hostile_session(), no_color=no_color)
    async with on_terminal(app, (160, 50)) as driver:
        await painted(app)
        for keys in (("m",), ("2",), ("v",), ("v",), ("v",), ("v",), ("enter",), ("colon",)):
            for key in keys:
                app.simulate_key(key)
                await painted(app)
                await painted(app)
        sent = "".join(driver.written)
    assert "evil" in sent
    rest = OWN_SEQUENCE.sub("", sent)
    steering = {c for c in rest if not c.isprintable()} - {"\n"}
    assert steering == set(), sorted(map(ascii, steering))


async def test_no_color_sends_no_colour() -> None:
    app = still_app(demo_session(52), no_color=True)
    async with on_terminal(app, (120, 40)) as driver:
        app.simulate_key("2")
        await painted(app)
        await painted(app)
        sent = "".join(driver.written)
    codes = {code for found in re.findall(r"\x1b\[([\d;]+)m", sent) for code in found.split(";")}
    assert codes <= {"0", "1", "2", "3", "4", "7"}
