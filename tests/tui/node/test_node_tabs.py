"""The tabs of a node's screen: what each counts is what it lists."""

from __future__ import annotations

import re

import pytest
from textual.widgets import Tab, TabbedContent

from gpuwatch import wire
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.tui.toolkit.lines.line_view import LineView
from tests.tui.screen_text import text_on
from tests.tui.still import NOW, StillSession, judged_session, still_app


async def test_the_alerts_of_a_node_are_as_many_as_its_tab_counts() -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(120, 60)) as pilot:
        for node in ("gpu-001", "gpu-011"):
            app.show_node(node)
            await pilot.pause()
            app.screen.query_one(TabbedContent).active = "alerts"
            await pilot.pause()
            app.pump()
            await pilot.pause()
            (label,) = (str(tab.label) for tab in app.screen.query(Tab) if "Alerts" in str(tab.label))
            pane = app.screen.query_one("#pane-alerts", LineView)
            shown = "\n".join(pane.render_line(y).text for y in range(pane.size.height))
            listed = re.findall(r"^ [✖◆▲] ", shown, re.MULTILINE)
            assert label == f"Alerts {len(listed)}" != "Alerts 0", shown


def node_without_gpu() -> StillSession:
    hello = wire.Hello(t=1.0, seq=0, host="login-1", agent="1", python="3.11.2", pid=1, interval_s=1.0)
    reported = [Arrival("login-1", NOW, what) for what in (LinkStatus("live"), hello)]
    return StillSession(Plan((NodeSpec("login-1"),)), reported)


@pytest.mark.parametrize("keys", ["2 v", "2 1", "2 q", "enter enter"])
async def test_keys_that_come_before_a_node_is_laid_out_raise_nothing(keys: str) -> None:
    app = still_app(node_without_gpu(), NOW)
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(4):
            for key in keys.split():
                app.simulate_key(key)
        await pilot.pause()
    assert (app.crash, app.faults.count) == (None, 0)


async def test_a_node_without_a_gpu_opens_with_its_host() -> None:
    app = still_app(node_without_gpu(), NOW)
    async with app.run_test(size=(80, 24)) as pilot:
        app.show_node("login-1")
        await pilot.pause()
        assert app.screen.query_one(TabbedContent).active == "host"
        assert "GPUs" not in text_on(app).splitlines()[1], "that it has none is no count of GPUs"
