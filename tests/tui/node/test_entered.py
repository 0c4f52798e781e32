"""The screen of a node that Prometheus names: the session is notified, and states how ssh went."""

from __future__ import annotations

import asyncio
import time

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.tui.node.screen import NodeScreen
from gpuwatch.wire import Hello
from tests.tui.screen_text import text_on
from tests.tui.still import NOW, StillSession, still_app

WAIT_S = 240.0


async def test_the_node_that_stays_on_the_screen_is_entered() -> None:
    names = ("gpu-001", "gpu-002", "gpu-003")
    reported = [
        Arrival(name, NOW, what)
        for name in names
        for what in (
            LinkStatus("live", "over ssh: Connection refused"),
            Hello(t=1.0, seq=0, host=name, agent="none", python="none", pid=0, interval_s=15.0),
        )
    ]
    plan = Plan(tuple(NodeSpec(name, link="prometheus") for name in names), source="server")
    session = StillSession(plan, reported)
    app = still_app(session, NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        app.show_node("gpu-001")
        await pilot.pause()
        await pilot.press("right_square_bracket")
        await pilot.pause()
        end = time.monotonic() + WAIT_S
        while "gpu-002" not in session.entered:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        assert "gpu-003" not in session.entered
        app.pump()
        await pilot.pause()
        shown = text_on(app)
        assert "Connection refused" in shown


async def test_the_next_node_of_one_that_has_left_is_the_first_or_the_last() -> None:
    names = ("gpu-001", "gpu-002", "gpu-003")
    session = StillSession(Plan(tuple(NodeSpec(name) for name in names), source="server"), [])
    app = still_app(session, NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        for key, shown in (("right_square_bracket", "gpu-001"), ("left_square_bracket", "gpu-002")):
            app.show_node("gpu-003")
            await pilot.pause()
            left = session.fleet.nodes.pop("gpu-003")
            await pilot.press(key)
            await pilot.pause()
            assert isinstance(app.screen, NodeScreen) and app.screen.header.node_name == shown
            session.fleet.nodes["gpu-003"] = left
