"""What a screen says of itself: notices, filters, key hints, counts and frozen data are true."""

from __future__ import annotations

import copy
import time

import pytest
from msgspec import structs
from textual.widgets import Input
from textual.widgets._toast import Toast

from gpuwatch import wire
from gpuwatch.clock import SessionClock
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.chrome.key_hints import KeysLine
from tests.tui.screen_text import fleet_of, text_on
from tests.tui.scripted_alerts import demo_book
from tests.tui.still import NOW, StillSession, demo_session, judged_session, still_app


def hints(app: GpuwatchApp) -> set[str]:
    """The actions that the line of key hints names."""
    return {key.action.partition("(")[0] for key in app.screen.query_one(KeysLine).hints}


async def test_a_notice_covers_one_line_over_the_key_hints_only() -> None:
    app = still_app(demo_session(95, book=demo_book()), 95)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.pause()
        app.notify("x" * 300, title="first")
        app.notify("second " * 40)
        await pilot.pause()
        shown = [toast for toast in app.screen.query(Toast) if toast.region]
        assert len(shown) == 1
        assert (shown[0].region.y, shown[0].region.height) == (23, 1)
        assert shown[0].region.right <= 80


async def test_nothing_looks_like_a_filter_that_is_none() -> None:
    app = still_app(demo_session(52), 52)
    async with app.run_test(size=(120, 40)) as pilot:
        fleet = fleet_of(app)
        await pilot.press("exclamation_mark")
        await pilot.pause()
        assert fleet.filter_bar.display
        assert fleet.query_one(Input).placeholder == ""
        await pilot.press("escape")
        await pilot.press("slash", "tab")  # left empty
        await pilot.pause()
        assert not fleet.filter_bar.display
        await pilot.press("6", "exclamation_mark")
        await pilot.pause()
        assert "/128, ! all" in text_on(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.where == "training"
        assert "! all" not in text_on(app)


async def test_hints_name_what_works_here_now() -> None:
    app = still_app(demo_session(14), 14)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        assert "unhealthy" not in hints(app)
        await pilot.press("4")
        await pilot.pause()
        assert not hints(app) & {"acknowledge", "silence", "next_rank", "next_mode", "unhealthy"}
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("4")
        await pilot.pause()
        assert hints(app) >= {"acknowledge", "next_rank", "next_mode", "unhealthy"}
        assert "silence" not in hints(app)
        app.screen.query_one("#alerts").focus()
        await pilot.pause()
        app.pump()
        await pilot.pause()
        assert "silence" in hints(app)


async def test_a_node_that_was_never_reached_is_not_counted_as_lost() -> None:
    session = demo_session(14)
    plan = copy.copy(session.plan)
    fresh = StillSession(plan)
    for name in ("gpu-001", "gpu-002"):
        fresh.fleet.apply(Arrival(name, NOW, LinkStatus("lost", "connection refused")))
    app = still_app(fresh)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        header = text_on(app).splitlines()[1]
        assert "2 unreachable" in header
        assert "lost" not in header


async def test_a_screen_opened_after_the_freeze_shows_what_was_known_at_the_freeze() -> None:
    session = demo_session(40)
    app = still_app(session, 40)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("p")
        before = max(writer.value("step") or 0 for writer in app.view_state.fleet.progress.writers.values())
        for writer in list(session.fleet.progress.writers.values()):
            frame = wire.Progress(
                t=EPOCH + 41,
                seq=1,
                at=EPOCH + 41,
                file=writer.file,
                rank=writer.rank,
                offset=1,
                dialect="",
                local_rank=writer.local_rank,
                pid=writer.pid,
                host=writer.host,
                fields={"step": before + 500},
            )
            session.fleet.apply(Arrival(writer.node, NOW, frame))
        node = session.fleet.nodes["gpu-001"]
        node.processes = [structs.replace(each) for each in node.processes[1:]]
        node.processes_at = (node.processes_at or 0) + 1
        await pilot.press("6")
        await pilot.pause()
        assert app.training.facts is not None
        rows = {row.rank: row for row in app.training.facts.rows}
        assert rows[0].alive
        assert f"{before + 500:,.0f}" not in text_on(app)
        assert f"{before:,.0f}" in text_on(app)
        await pilot.press("p")
        app.pump()
        await pilot.pause()
        assert not {row.rank: row for row in app.training.facts.rows}[0].alive


@pytest.mark.parametrize("dialog", ["question_mark", "J", "colon"])
async def test_the_clock_of_the_header_goes_on_under_a_dialog(
    dialog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    passed = [0.0]
    app = GpuwatchApp(
        demo_session(14),
        clock=SessionClock(lambda: NOW + passed[0], lambda: EPOCH + 14 + passed[0]),
        ascii_only=False,
    )
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(dialog)
        assert "08:00:14" in app.export_screenshot()
        passed[0] = 9.0
        app.pump()
        await pilot.pause()
        assert "08:00:23" in app.export_screenshot()
