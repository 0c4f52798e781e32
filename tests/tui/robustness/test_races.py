"""Keys that come sooner than the screen that they are for, and timers that outlive theirs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from textual import events
from textual.command import CommandPalette
from textual.notifications import Notification
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input
from textual.widgets._toast import Toast

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.rules.load import load_packs
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.chrome import key_order
from gpuwatch.tui.chrome.dialogs.explain_screen import ExplainScreen
from gpuwatch.tui.chrome.dialogs.jobs_screen import JobsScreen
from gpuwatch.tui.chrome.help_screen import HelpScreen
from gpuwatch.tui.command_palette import Palette
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.logs.screen import LogsScreen
from gpuwatch.tui.node.screen import NodeScreen
from gpuwatch.tui.toolkit.cockpit import OpenRequest
from gpuwatch.tui.toolkit.dialog import Dialog
from tests.tui.still import StillSession, demo_session, judged_session, still_app

WAYS = {
    "node": (("show_node", "gpu-006"),),
    "gpu": (("show_gpu", "gpu-006"),),
    "logs": (("action_logs",),),
    "incidents": (("action_incidents",),),
    "links": (("action_links",),),
    "training": (("action_training",),),
    "help": (("action_help",),),
}

UNTRIED = {"pager", "save_screen", "acknowledge", "silence"}
"""They need a person's program, or a session with a book that can be written."""


def go(app: GpuwatchApp, where: str) -> None:
    """Push a screen and do not wait for it."""
    for name, *arguments in WAYS[where]:
        if name == "show_gpu":
            arguments.append(app.view_state.fleet.nodes["gpu-006"].gpu_list()[0].info.uuid)
        getattr(app, name)(*arguments)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("where", WAYS)
async def test_a_key_that_comes_before_its_screen_is_made_waits_for_it(where: str) -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        go(app, where)
        bound = {
            each[0].action.split("(")[0]: each[0].action
            for each in app.screen._bindings.key_to_bindings.values()
        }
        for name, action in bound.items():
            app.action_fleet()
            go(app, where)
            assert not app.screen.is_mounted
            if "." not in name and name not in UNTRIED:
                await app.run_action(action, app.screen)
        await pilot.pause()


async def test_two_ways_to_the_logs_at_once() -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        app.show_logs(OpenRequest("gpu-006"))
        app.show_logs(OpenRequest("gpu-002"))
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, LogsScreen)
        assert {source.node for source in screen.workspace.sources} == {"gpu-002"}


async def test_the_palette_says_nothing_more_once_its_parts_are_gone() -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("colon")
        palette = app.screen
        assert isinstance(palette, CommandPalette)
        palette._NO_MATCHES_COUNTDOWN = 0.05  # type: ignore[misc]
        palette.query_one(Input).value = "no such place"
        timer = None
        while timer is None:
            await pilot.pause()
            timer = palette._no_matches_timer
        await palette.remove_children()
        assert timer._task is not None
        await timer._task
        await pilot.pause()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("list_of", ["commands", "themes"])
async def test_a_palette_that_is_closed_twice_closes_once(list_of: str) -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(120, 40)) as pilot:
        if list_of == "commands":
            app.action_command_palette()
        else:
            app.search_themes()
        await pilot.pause()
        palette = app.screen
        assert isinstance(palette, CommandPalette)
        field = palette.query_one(Input)
        palette.dismiss(None)
        palette.dismiss(None)
        palette.post_message(Input.Changed(field, "xx"))
        palette.post_message(Input.Submitted(field, "xx"))
        await pilot.pause()
        await pilot.pause()
        assert not isinstance(app.screen, CommandPalette)


@pytest.mark.parametrize("opens", ["J", "C", "i", "?", "A"])
async def test_a_dialog_that_two_keys_close_leaves_the_screen_below(opens: str) -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        below = app.screen
        await pilot.press(opens)
        dialog = app.screen
        assert isinstance(dialog, Dialog)
        if isinstance(dialog, JobsScreen):
            dialog.action_choose()  # the choice arrives when the dialog is closed
        dialog.dismiss(None)
        dialog.dismiss(None)
        await pilot.pause()
        await pilot.pause()
        assert app.screen is below
    assert (app.crash, app.faults.count) == (None, 0)


async def test_the_palette_opens_again_while_the_closed_one_is_taken_away() -> None:
    app = still_app(demo_session(52))
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in range(3):
            app.action_command_palette()
            app.screen.dismiss()
            app.action_command_palette()
            await pilot.pause()
            assert isinstance(app.screen, Palette)
            await pilot.press("escape")
    assert (app.crash, app.faults.count) == (None, 0)


def is_shown(app: GpuwatchApp) -> bool:
    """Return True if the part with the focus is on the screen."""
    focused = app.focused
    return focused is None or all(
        part.display for part in focused.ancestors_with_self if isinstance(part, Widget)
    )


@pytest.mark.parametrize("burst", ["escape slash", "escape slash escape slash", "tab slash"])
@pytest.mark.parametrize("where", ["fleet", "logs"])
async def test_a_field_that_is_closed_and_opened_at_once_is_shown(where: str, burst: str) -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        if where != "fleet":
            app.action_logs()
            await pilot.pause()
        await pilot.press("slash")
        for key in burst.split():
            app.simulate_key(key)
        await pilot.pause()
        assert isinstance(app.focused, Input)
        assert is_shown(app)
        await pilot.press("escape", "4")
        assert app.where == "incidents"


async def test_a_hidden_field_gives_the_focus_away_and_esc_shows_all() -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("slash", *"temp>999", "enter")
        screen = app.screen
        assert isinstance(screen, FleetScreen)
        screen.filter_bar.display = False
        screen.set_focus(screen.field)
        app.pump()
        await pilot.press("escape", "4")
        assert app.where == "incidents"
        assert not screen.shown.narrowed


async def test_a_notice_whose_time_is_over_before_it_is_shown_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = still_app(StillSession(Plan((NodeSpec("gpu-001"),), source="hosts.yaml")))
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await pilot.pause()
        made: list[float] = []
        plain = Toast.__init__

        def late(toast: Toast, notification: Notification) -> None:
            notification.raised_at -= 60.0  # the clock was set, or the machine stood still
            plain(toast, notification)
            made.append(notification.time_left)

        monkeypatch.setattr(Toast, "__init__", late)
        app.notify("once")
        end = time.monotonic() + 60
        while not made:
            assert time.monotonic() < end
            await asyncio.sleep(0.02)
        await pilot.press("2")
        await pilot.pause()
        assert min(made) > 0


async def test_a_dialog_under_the_palette_is_not_closed_in_its_place() -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("J")
        dialog = app.screen
        assert isinstance(dialog, Dialog)
        app.action_command_palette()
        dialog.dismiss(None)  # by a key that was pressed before the palette was on top
        await pilot.pause()
        assert isinstance(app.screen, Palette)
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert isinstance(app.screen, FleetScreen)
        assert app.faults.count == 0


NAMED = {
    "/": "slash", "?": "question_mark", ":": "colon", "=": "equals_sign", " ": "space", "\r": "enter",
}  # fmt: skip


async def typed(app: GpuwatchApp, pilot: Pilot[None], text: str, done: Callable[[], bool]) -> None:
    """Type all letters at once, and wait for what they lead to."""
    for letter in text:
        app.post_message(events.Key(NAMED.get(letter, letter), letter))
    until = time.monotonic() + 300
    while not done():
        assert time.monotonic() < until, (text, app.screen, app.focused)
        await pilot.pause(0.02)


async def test_what_is_typed_at_once_goes_where_the_keys_before_it_lead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = demo_session(14)
    session.packs = load_packs()
    app = still_app(session, 14)

    def in_field(text: str, screen: type[Any]) -> Callable[[], bool]:
        return lambda: (
            isinstance(app.screen, screen)
            and isinstance(app.focused, Input)
            and app.focused.value.endswith(text)
        )

    def slow() -> None:
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            pass
        GpuwatchApp.action_filter(app)

    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        fleet = app.screen
        assert isinstance(fleet, FleetScreen)

        def filtered() -> bool:
            return len(fleet.shown.gpus or ()) == 1 and app.focused is fleet.heat

        with monkeypatch.context() as patch:
            patch.setattr(key_order, "OVERDUE_S", 0.02)
            patch.setattr(app, "action_filter", slow)
            await typed(app, pilot, "/rank=85\r", filtered)
        await typed(app, pilot, "/\r2", lambda: isinstance(app.screen, NodeScreen))
        app.action_fleet()
        await pilot.pause()
        assert fleet.shown.text == "rank=85"
        with monkeypatch.context() as patch:  # every message behind a key is lost, and no frame comes
            patch.setattr(key_order, "OVERDUE_S", 0.02)
            patch.setattr(key_order, "OVERDUE_CHECKS", 4)
            patch.setattr(key_order.KeyOrder, "on_key_handled", lambda *_: None)
            await typed(app, pilot, "?/q", in_field("q", HelpScreen))
        await pilot.press("escape", "escape")
        await typed(app, pilot, ":rank 8", in_field("rank 8", Palette))
        places: dict[str, type[Any]] = {
            "?/": HelpScreen, "i/": ExplainScreen, "3c": LogsScreen, "3f": LogsScreen, "3t": LogsScreen,
            "3/": LogsScreen, "6/": FleetScreen, "2/": FleetScreen,
        }  # fmt: skip
        for begin, screen in places.items():
            await pilot.press("escape", "escape")
            app.action_fleet()
            await pilot.pause()
            await typed(app, pilot, begin + "qab", in_field("qab", screen))
