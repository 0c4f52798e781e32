"""The screens under a pilot, over the demo and over what can go wrong."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Input, TabbedContent

from gpuwatch import wire
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.chrome.help_screen import HelpPage, HelpScreen
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.chrome.status_bar import StatusLine
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.node.gpu_screen import GpuScreen
from gpuwatch.tui.node.screen import NodeScreen
from gpuwatch.tui.toolkit.cockpit import Cockpit
from gpuwatch.tui.toolkit.lines.line_view import LineView
from tests.sentences import Sentences
from tests.tui.robustness.hostile import POISON, hostile_session
from tests.tui.screen_text import fleet_of, text_on
from tests.tui.shots import plan_for
from tests.tui.still import NOW, StillSession, demo_session, judged_session, still_app


async def test_the_first_frame_of_a_screen_has_its_status_line(monkeypatch: pytest.MonkeyPatch) -> None:
    painted: list[str] = []
    paint = StatusLine.render_line

    def kept(line: StatusLine, y: int) -> Strip:
        strip = paint(line, y)
        painted.extend([strip.text] if y == 0 else [])
        return strip

    monkeypatch.setattr(StatusLine, "render_line", kept)
    app = still_app(demo_session(52))
    async with app.run_test(size=(120, 40)) as pilot:
        for key in "23456":
            await pilot.press(key)
        await pilot.pause()
    assert [line for line in painted if "gpuwatch" not in line] == []


async def test_the_straggler_of_the_demo_is_stated_on_three_screens() -> None:
    app = still_app(judged_session(40), 40)
    sentence = "rank 42 (gpu-006 GPU 2) slows all 128 ranks by 50 %: thermal throttling"
    async with app.run_test(size=(120, 40)) as pilot:
        for key in "146":
            await pilot.press(key)
            await pilot.pause()
            assert sentence in text_on(app), key


async def type_filter(pilot: Pilot[None], app: GpuwatchApp, text: str) -> None:
    await pilot.press("slash")
    app.screen.query_one("#filter-text", Input).value = text
    await pilot.pause()


async def test_the_app_is_the_cockpit_that_its_screens_use() -> None:
    app = still_app(demo_session(52))
    cockpit: Cockpit = app  # mypy compares the two: screens and widgets reach the app by a cast
    async with app.run_test(size=(120, 40)):
        cockpit.show_node("gpu-004")
        assert cockpit.where == "node"


async def test_keys_drill_down_and_come_back() -> None:
    app = still_app(demo_session(52))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("j", "enter")
        assert isinstance(app.screen, NodeScreen)
        assert app.screen.node_name() == "gpu-003"
        await pilot.press("right_square_bracket")
        assert app.screen.node_name() == "gpu-004"
        await pilot.press("down", "enter")
        assert isinstance(app.screen, GpuScreen)
        uuid = app.screen.place[1]
        await pilot.press("right_square_bracket")
        assert app.screen.place[1] != uuid
        await pilot.press("minus")
        assert isinstance(app.screen, NodeScreen)
        await pilot.press("escape")
        assert isinstance(app.screen, FleetScreen)
        await pilot.press("2")
        assert isinstance(app.screen, NodeScreen)
        await pilot.press("1")
        assert isinstance(app.screen, FleetScreen)
        await pilot.press("q")
    assert app.return_code == 0


async def test_links_start_after_the_first_paint_and_once() -> None:
    session = StillSession(plan_for(3))
    app = still_app(session)
    assert session.started == 0
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert session.started == 1
        assert "connecting" in text_on(app)


async def test_an_incident_is_shown_on_the_fleet_screen() -> None:
    app = still_app(demo_session(52))
    async with app.run_test(size=(120, 40)):
        shown = text_on(app)
    assert "DEMO" in shown
    assert "127 of 128" in shown
    assert re.search(r"gpu-011 +7/8 .*7s ago: GPU 5: Xid 79: GPU fell", shown)
    assert "✖" in shown


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [(40, 12), (80, 24), (200, 60)])
@pytest.mark.parametrize("keys", [(), ("2",), ("enter", "enter"), ("question_mark",)])
async def test_every_screen_at_every_size(size: tuple[int, int], keys: tuple[str, ...]) -> None:
    """Document 002, line 114."""
    app = still_app(demo_session(52))
    async with app.run_test(size=size) as pilot:
        await pilot.press(*keys)
        await pilot.pause()
        for part in app.screen.query(LineView):
            for y in range(part.size.height):
                assert part.render_line(y).cell_length == part.columns
        assert len(app.export_screenshot()) > 1000


async def test_an_empty_plan_and_a_node_without_gpus() -> None:
    for nodes in ((), (NodeSpec("login-1"),)):
        plan = Plan(nodes=nodes)
        hello = wire.Hello(t=1.0, seq=0, host="login-1", agent="1", python="3", pid=1, interval_s=1.0)
        session = StillSession(
            plan, [Arrival("login-1", NOW, LinkStatus("live")), Arrival("login-1", NOW, hello)]
        )
        app = still_app(session)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("enter", "2", "minus", "m", "s", "exclamation_mark", "y")
            await pilot.pause()
            assert "gpuwatch" in text_on(app)


async def test_a_thousand_nodes_scroll_under_the_cursor() -> None:
    """Document 004, line 36."""
    app = still_app(demo_session(0, plan_for(1024)))
    async with app.run_test(size=(120, 40)) as pilot:
        heat = fleet_of(app).heat
        await pilot.press("O")  # so many are folded, until asked for
        await pilot.press("G")
        await pilot.pause()
        assert heat.place == (1023, 7)
        assert heat.scroll_offset.y > 0
        await pilot.press("enter")
        assert isinstance(app.screen, NodeScreen)
        assert app.screen.node_name() == "gpu-1024"


async def test_filter_narrows_and_tells_mistakes_where_they_are_made() -> None:
    app = still_app(demo_session(52))
    async with app.run_test(size=(120, 40)) as pilot:
        shown = fleet_of(app).shown
        await type_filter(pilot, app, "host~=01[12]")
        assert [view.name for view in shown.views] == ["gpu-011", "gpu-012"]
        note = app.screen.query_one("#filter-note")
        assert re.findall(r"\d+", str(note.render())) == ["2", "16", "16", "128"]
        await type_filter(pilot, app, "tempp>5")
        assert shown.error
        assert shown.error in str(note.render())
        await pilot.press("escape")
        assert len(shown.views) == 16


async def test_only_unhealthy_leaves_what_is_not() -> None:
    app = still_app(demo_session(52))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("exclamation_mark")
        names = [view.name for view in fleet_of(app).shown.views]
        assert "gpu-011" in names
        assert len(names) < 16
        await pilot.press("exclamation_mark")
        assert len(fleet_of(app).shown.views) == 16


async def test_sorting_puts_the_worst_on_top_and_keeps_the_cursor_on_its_node() -> None:
    app = still_app(demo_session(52))
    async with app.run_test(size=(120, 40)) as pilot:
        table = fleet_of(app).table
        await pilot.press("tab", "down", "down")
        before = table.chosen()
        table.sort_by("gpus")
        assert table.lines[0].name == "gpu-011"
        after = table.chosen()
        assert before is not None
        assert after is not None
        assert after.name == before.name
        await pilot.press("S")
        assert table.lines[-1].name == "gpu-011"


async def test_frozen_stands_still_while_the_session_goes_on() -> None:
    session = demo_session(30)
    moving = [NOW]
    app = still_app(session, clock=lambda: moving[0])
    newer = demo_session(31).fleet.nodes["gpu-001"].gpu_list()[0]
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("p")
        before = text_on(app).splitlines()[1:]
        moving[0] += 5
        assert newer.fast is not None
        changed = replace_fast(newer.fast, utilization_pct=3.0)
        sample = wire.Sample(t=5.0, seq=99, gpus=[wire.GpuSample(newer.info.uuid, fast=changed)])
        session.waiting.append(Arrival("gpu-001", moving[0], sample))
        app.pump()
        await pilot.pause()
        assert text_on(app).splitlines()[1:] == before
        assert "FROZEN 5.0s ago" in text_on(app)
        await pilot.press("p")
        await pilot.pause()
        assert re.search(r"util +3%", text_on(app))


def replace_fast(fast: wire.GpuFast, **changes: float) -> wire.GpuFast:
    values = {field: getattr(fast, field) for field in fast.__struct_fields__}
    return wire.GpuFast(**(values | changes))


async def test_a_silent_node_looks_stale_everywhere() -> None:
    moving = [NOW]
    app = still_app(demo_session(30), clock=lambda: moving[0])
    async with app.run_test(size=(120, 40)) as pilot:
        moving[0] += 30
        app.pump()
        await pilot.pause()
        shown = text_on(app)
        assert re.search(r"gpu-001 .*\?", shown)
        assert "16 stale" in shown
        await pilot.press("enter")
        await pilot.pause()
        assert "stale for 30s" in text_on(app)


async def test_a_stuck_gpu_says_in_which_call_and_since_when() -> None:
    session = demo_session(30)
    gpu = session.fleet.nodes["gpu-002"].gpu_list()[1]
    stuck = wire.GpuSample(gpu.info.uuid, state="stuck", stuck_in="nvmlDeviceGetPowerUsage", stuck_s=42.0)
    session.fleet.apply(Arrival("gpu-002", NOW, wire.Sample(t=30.0, seq=9, gpus=[stuck])))
    app = still_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        app.show_node("gpu-002")
        await pilot.pause()
        assert "STUCK in nvmlDeviceGetPowerUsage for 42s" in text_on(app)


async def test_help_lists_keys_and_the_panes_turn() -> None:
    app = still_app(demo_session(52))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("q", "2", "v", "v")
        assert app.screen.query_one(TabbedContent).active == "topology"
        await pilot.pause()
        assert "NV18" in text_on(app)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("screen", [HelpScreen, lambda: GpuScreen("gpu-001", "GPU-1-1")])
async def test_leaving_while_a_screen_opens_is_no_fault(screen: Callable[[], Screen[None]]) -> None:
    app = still_app(demo_session(52))
    async with app.run_test(size=(120, 40)):
        app.push_screen(screen())
        app.exit()  # its widgets never come


async def test_the_palette_jumps_to_a_gpu() -> None:
    app = still_app(demo_session(52))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("colon", *"gpu-009 gpu 4")
        await app.workers.wait_for_complete()
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, GpuScreen)
        assert "gpu-009 GPU 4" in text_on(app)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ascii_only", [False, True])
async def test_ascii_means_ascii(ascii_only: bool) -> None:
    app = still_app(demo_session(52), ascii_only=ascii_only)
    async with app.run_test(size=(160, 50)) as pilot:
        shown = text_on(app)
        await pilot.press("2")
        shown += text_on(app)
    assert shown.isascii() == ascii_only


async def test_y_copies_a_clean_line() -> None:
    app = still_app(hostile_session())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("y")
        assert app.clipboard.startswith("mean GPU 0")
        assert app.clipboard.isprintable()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("screen", ["1", "2", "3", "4", "5", "6"])
async def test_what_y_copies_is_one_line_without_control_characters(screen: str) -> None:
    """A line end would let a shell run what is pasted; the rest would steer the terminal."""
    app = still_app(hostile_session())
    copied = []
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.press(screen)
        for keys in (["y"], ["tab", "y"], ["down", "y"], ["enter", "y"], ["down", "y"], ["tab", "down", "y"]):
            await pilot.press(*keys)
            copied.append(app.clipboard)
    assert all(text.isprintable() for text in copied)


async def test_a_widget_that_gives_several_lines_copies_one(monkeypatch: pytest.MonkeyPatch) -> None:
    app = still_app(hostile_session())
    async with app.run_test(size=(120, 40)) as pilot:
        monkeypatch.setattr(app.screen, "copy_text", lambda: f"ls{POISON}\nrm -r x\r\n")
        await pilot.press("y")
        assert app.clipboard.startswith("ls")
        assert app.clipboard.isprintable()


def test_the_shots_plan_is_the_demo_s() -> None:
    assert replace(plan_for(16), source="") == replace(demo_session(0).plan, source="")


async def test_on_a_small_screen_no_key_and_no_help_is_cut(sentences: Sentences) -> None:
    app = still_app(demo_session(52), 52)
    async with app.run_test(size=(80, 24)) as pilot:
        for key, needed in (
            ("1", "incidents"),
            ("2", "incidents"),
            ("3", "filter"),
            ("4", "waiting"),
            ("6", "waiting"),
        ):
            await pilot.press(key)
            await pilot.pause()
            shown = app.screen.query_one(KeysLine).hints
            assert {"help", "back_or_quit", needed} <= {each.action for each in shown}
            assert sum(each.width + 1 for each in shown) - 1 <= 80
        await pilot.press("question_mark")
        await pilot.pause()
        page = app.screen.query_one(HelpPage)
        reported = " ".join(
            " ".join(part.text for part in row).strip() for row in page.build(page.size.width)
        )
        sentences(next(part for part in reported.split("  ") if "alerts:" in part))
