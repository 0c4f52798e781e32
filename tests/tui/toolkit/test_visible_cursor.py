"""The cursor is seen where colours say nothing: by reverse, bold, underline or a mark, on lists and maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import pytest
from msgspec import structs

from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.incidents.screen import IncidentsScreen
from gpuwatch.tui.toolkit.styles import ASCII, UNICODE, Colours, build_styles
from tests.tui import still_probes
from tests.tui.logs.log_desk import log_desk
from tests.tui.logs.log_nodes import story
from tests.tui.screen_text import fleet_of, text_on
from tests.tui.scripted_alerts import StillBook, demo_incident
from tests.tui.still import StillSession, demo_session, judged_session, still_app

Look = Literal["no colour", "no colour, ASCII", "16 colours", "light, no colour", "light, 16 colours"]
Cell: TypeAlias = "tuple[str, bool, bool, bool]"
"""A character; whether it is reversed, bold, underlined."""
LOOKS: tuple[Look, ...] = (
    "no colour", "no colour, ASCII", "16 colours", "light, no colour", "light, 16 colours",
)  # fmt: skip

PLACES: dict[str, tuple[Sequence[str], str]] = {
    "heat map": ((), "right"),
    "heat map, another metric": (("m", "m"), "down"),
    "nodes": (("tab",), "down"),
    "active problems": (("tab", "tab"), "down"),
    "GPUs of a node": (("2",), "down"),
    "incidents": (("4", "shift+tab", "shift+tab", "shift+tab"), "down"),
    "incident": (("4",), "down"),
    "alerts": (("4", "shift+tab"), "down"),
    "ranks": (("6",), "down"),
    "links": (("5",), "right"),
    "verdict on the links": (("5", "tab"), "down"),
    "a new probe": (("5", "ctrl+n"), "down"),
    "palette": (("colon",), "down"),
    "palette, searched": (("colon", *"gpu-0"), "down"),
    "jobs": (("J",), "down"),
    "columns": (("C",), "down"),
}
"""A list or map -> the keys that lead to it, and one that moves its cursor."""
SIZES = [(80, 24), (120, 40), (200, 60)]


def seen(app: GpuwatchApp) -> list[list[Cell]]:
    """The lines of the screen without their colours."""
    return [
        [
            (
                character,
                bool(style and style.reverse),
                bool(style and style.bold),
                bool(style and style.underline),
            )
            for text, style, _ in strip
            for character in text
        ]
        for strip in app.screen._compositor.render_strips()
    ]


def marked_apart(before: Sequence[Sequence[Cell]], after: Sequence[Sequence[Cell]]) -> bool:
    """Whether a line has the same words before and after, perhaps scrolled, but is marked otherwise."""

    def words(line: Sequence[Cell]) -> str:
        return "".join(" " if cell[0] in CURSORS else cell[0] for cell in line).strip()

    known = [(words(line), line) for line in before]
    return any(one != line and text == words(line) != "" for line in after for text, one in known) and [
        *before
    ] != [*after]


CURSORS = {UNICODE.cursor, ASCII.cursor}


def session_with_all() -> StillSession:
    """Incidents, alerts and a probe that was judged."""
    session = judged_session(95.0)
    session.probes = still_probes.probe_session(still_probes.done()).probes
    return session


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("look", LOOKS)
async def test_the_cursor_is_seen_without_colours(
    look: Look, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    colours: Colours = "few" if "16" in look else "none"
    monkeypatch.setattr(GpuwatchApp, "colours", lambda _: colours)
    app = still_app(
        session_with_all(), 95.0, ascii_only="ASCII" in look, no_color=colours == "none",
        theme="gpuwatch-light" if "light" in look else None,
    )  # fmt: skip
    hidden = []
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for place, (keys, move) in PLACES.items():
            if place == "active problems" and size[1] < 30:
                continue  # one of them fills the pane
            app.action_fleet()
            await pilot.pause()
            fleet_of(app).heat.focus()
            for key in keys:
                await pilot.press(key)
                await pilot.pause()
            await app.workers.wait_for_complete()
            await pilot.pause()
            before = seen(app)
            await pilot.press(move)
            for _ in range(10):
                await pilot.pause()
                if marked_apart(before, seen(app)):
                    break
            else:
                hidden.append(f"{place}: {app.focused!r}")
            if place.startswith("heat map, "):
                await pilot.press("M", "M")
    assert hidden == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("look", LOOKS[:3])
async def test_the_cursor_of_a_log_is_seen_without_colours(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    colours: Colours = "few" if "16" in look else "none"
    monkeypatch.setattr(GpuwatchApp, "colours", lambda _: colours)
    async with log_desk(story(), ascii_only="ASCII" in look) as desk:
        await desk.type("c", "0-5")
        for keys in (("up",), ("m", "up"), ("z",), ("b", "B")):
            await desk.press(*keys)
            before = seen(desk.app)
            await desk.press("up" if "B" not in keys else "tab")
            assert marked_apart(before, seen(desk.app)), keys


def test_no_colour_leaves_the_pointer_reversed() -> None:
    for dark in (True, False):
        for look in (build_styles(dark=dark, colours="none"), build_styles(dark=dark, colours="few")):
            assert look.pointer.reverse or look.pointer.underline
            assert look.cursor.reverse or look.cursor.bold


async def test_the_incident_that_is_shown_is_marked_while_another_pane_has_the_cursor() -> None:
    session = demo_session(95)
    one = demo_incident()
    session.book = StillBook([one, structs.replace(one, id="i-2", number=2)])
    app = still_app(session, 95.0, no_color=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4", "down")
        await pilot.pause()
        assert isinstance(app.screen, IncidentsScreen)
        for _ in range(2):
            await pilot.press("tab")
            await pilot.pause()
            shown = app.screen.incident()
            assert shown is not None
            lines = [line for line in text_on(app).splitlines() if UNICODE.cursor in line]
            assert [f"#{shown.number}" in line for line in lines] == [True]
