"""The first line states what is not delivered, and how often a Prometheus has values."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.hosts.receivers import ReceiverSpec
from tests.report.delivery.receivers import delivery, incident, until
from tests.tui.screen_text import text_on
from tests.tui.shots import plan_for
from tests.tui.still import NOW, StillSession, demo_session, still_app


async def test_a_receiver_that_is_down_is_named_with_what_waits(tmp_path: Path) -> None:
    app = still_app(demo_session(5.0, plan_for(2)), 5.0)
    with delivery(tmp_path, ReceiverSpec("webhook", "http://127.0.0.1:9/")) as made:
        until(made, [incident()], lambda: bool(made.trouble))
        app.delivery = made
        async with app.run_test(size=(160, 40)) as pilot:
            await pilot.pause()
            (line, *_) = text_on(app).splitlines()
    assert "127.0.0.1:9" in line
    assert "1 waiting" in line


async def test_values_that_come_every_15_s_are_no_values_of_now() -> None:
    plan = Plan((NodeSpec("gpu-001", link="prometheus"),), source="server", interval_s=15.0)
    app = still_app(StillSession(plan), NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "every 15 s" in text_on(app).splitlines()[0]


@pytest.mark.parametrize("interval_s", [1.0, 4.0])
async def test_an_interval_that_a_busy_machine_lengthened_is_stated(interval_s: float) -> None:
    session = demo_session(5.0, plan_for(2))
    session.fleet.interval_s = interval_s
    app = still_app(session, 5.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert ("busy: every 4 s" in text_on(app).splitlines()[0]) == (interval_s == 4.0)


@pytest.mark.parametrize("behind_s", [0.4, 27.0])
async def test_a_demo_that_a_busy_machine_slows_down_states_how_far_it_is_behind(behind_s: float) -> None:
    app = still_app(demo_session(5.0, plan_for(2)), 5.0)
    app.view_state.behind_s = lambda: behind_s
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert ("27s behind (busy machine)" in text_on(app).splitlines()[0]) == (behind_s == 27.0)
