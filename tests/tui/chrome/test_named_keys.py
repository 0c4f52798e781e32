"""Sentences on the screen name the keys in force, not the ones that gpuwatch comes with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.css.query import NoMatches
from textual.pilot import Pilot
from textual.widgets import Label

import gpuwatch.tui
from gpuwatch.clock import SessionClock
from gpuwatch.diagnose.hang.flight_recorder.job_dumps import FlightEvidence
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.chrome.help_screen import HelpPage
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.model.preferences import Preferences
from gpuwatch.tui.toolkit import keys
from tests.tui import still_probes
from tests.tui.hang.hang_answers import Asked
from tests.tui.screen_text import text_on
from tests.tui.scripted_alerts import demo_book
from tests.tui.still import NOW, StillSession, demo_session, judged_session

BUILT_IN = {
    name: binding for _, section in keys.SECTIONS for binding in section if (name := binding.id) is not None
}
LETTERS = (
    [chr(code) for code in (*range(0x3B1, 0x3C2), *range(0x430, 0x450), *range(0x10D0, 0x10F1))]
    + [f"f{number}" for number in range(13, 24)]
    + [chr(code) for code in range(0x561, 0x587)]
)
"""Keys that no binding has: letters of Greek, Cyrillic, Georgian and Armenian, and far function keys."""
KEYMAP = {**dict(zip(BUILT_IN, LETTERS, strict=False)), "app.back": "f24"}  # a letter would be typed

_ONE = "[A-Za-z0-9?!/:+_\\[\\]-]"
_NAME = r"enter|Enter|esc|tab|shift\+tab|ctrl\+\w|\^[a-z]"
_DOES = (
    r"shows|lists|opens|copies|closes|cancels|searches|resumes|chooses|steps|silences|undoes|sets|starts|"
    r"requests|queries|enters|applies|clears|leaves|asks|triggers|sorts|names|next\b"
)
NAMED = re.compile(
    rf"\b(?:press|key) (?:{_ONE}|{_NAME})(?=[\s,;:.)]|$)"
    rf"|(?:^|[;,] ?|  | or )(?:{_ONE}|{_NAME})(?:: [a-z]| (?:{_DOES}))"
    rf"|(?:^|[^\w-])(?:{_NAME})(?![\w=-])"
)
"""A built-in key in a sentence."""
OF_A_FIELD = {"   enter applies, ", "enter: apply", "enter: run"}
"""Enter in a field for text is Textual's own, and cannot be bound otherwise."""


def literals(file: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module that are no docstrings, with their lines."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.lineno, node.value


def test_no_sentence_of_the_screens_has_a_key_written_into_it() -> None:
    room = Path(gpuwatch.tui.__file__).parent
    found = [
        f"{file.relative_to(room)}:{line}: {text!r}"
        for file in sorted(room.rglob("*.py"))
        if file.name not in ("keys.py", "shape.py")
        for line, text in literals(file)
        if NAMED.search(text) and text not in OF_A_FIELD
    ]
    tooltips = [name for name, binding in BUILT_IN.items() if NAMED.search(keys.meaning(binding))]
    assert found + tooltips == []


def rebound_app(session: StillSession, second: float) -> GpuwatchApp:
    return GpuwatchApp(
        session, clock=SessionClock(lambda: NOW, lambda: EPOCH + second), preferences=Preferences(keys=KEYMAP)
    )


WAYS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("node", ("app.node",)),
    ("gpu", ("move.open",)),
    ("logs", ("app.fleet", "app.logs")),
    ("logs", ("logs.after",)),
    ("logs", ("logs.hit",)),
    ("logs", ("logs.bookmark", "logs.bookmarks")),
    ("logs", ("app.back", "app.find")),
    ("logs", ("app.back", "incident.rank")),
    ("incidents", ("app.fleet", "app.incidents")),
    ("incidents", ("incident.silence",)),
    ("incidents", ("fleet.unhealthy",)),
    ("incidents", ("pane.previous", "incident.silence")),
    ("incidents", ("app.columns",)),
    ("waiting", ("app.waiting",)),
    ("waiting", ("move.last",)),
    ("links", ("app.fleet", "app.links")),
    *((("links", ("links.pane",)),) * 4),
    ("links", ("links.before",)),
    ("links", ("links.after",)),
    ("links", ("links.new",)),
    ("links", ("app.back",)),
    ("training", ("app.training",)),
    ("", ("app.columns",)),
    ("training", ("move.open",)),
    ("fleet", ("app.fleet", "fleet.unhealthy")),
    ("fleet", ("app.find",)),
    ("fleet", ("app.back", "app.freeze")),
    ("", ("app.jobs",)),
    ("fleet", ("move.down", "move.open")),
)
"""Bindings that are pressed one after the other, and the screen that is shown then."""


class Walker:
    """Presses keys by the ids of their bindings, and keeps what the screens showed."""

    def __init__(self, app: GpuwatchApp, pilot: Pilot[Any]) -> None:
        self.app, self._pilot = app, pilot
        self.shown: list[str] = []

    async def press(self, *names: str) -> None:
        for name in names:
            self.app.simulate_key(KEYMAP[name])
            await self._pilot.pause()
        self.app.pump()
        await self._pilot.pause()
        self.look()

    def look(self) -> None:
        """Take what the screen shows: its lines, labels, key hints and the notice over them."""
        texts = [text_on(self.app), *(str(label.content) for label in self.app.screen.query(Label))]
        texts += [notice.message for notice in self.app._notifications]
        for line in self.app.screen.query(KeysLine):
            texts += [f"{hint.key_display}: {hint.description.lower()}" for hint in line.hints]
        self.shown += "\n".join(texts).splitlines()

    def named(self) -> list[str]:
        """The lines with a built-in key, but for what a log or a field says."""
        return [line for line in self.shown if NAMED.search(line) and not any(f in line for f in OF_A_FIELD)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_every_screen_names_the_keys_that_a_person_has_bound(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(KEYMAP) == len(BUILT_IN)
    session = judged_session(95)
    session.query = Asked()
    session.query.answer()
    session.query.dumps = FlightEvidence(may_write=(1, 2), places=("/dumps/rank_",))
    monkeypatch.setattr(session, "silence", lambda *_, **__: "")
    session.probes = still_probes.probe_session(still_probes.done(), still_probes.asking()).probes
    app = rebound_app(session, 95)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        walk = Walker(app, pilot)
        walk.look()
        for where, names in WAYS:
            await walk.press(*names)
            assert where in (app.where, ""), names
        assert app.view_state.frozen
        assert app.view_state.scope.job
        await walk.press("app.help")
        walk.shown += [line for line in _page_of(app) if line.strip()]
        await walk.press("app.help", "app.palette")
        assert walk.named() == []


def _page_of(app: GpuwatchApp) -> list[str]:
    try:
        page = app.screen.query_one(HelpPage)
    except NoMatches:
        return []
    return ["".join(segment.text for segment in page.row(line, 80)) for line in range(page.count())]


async def test_a_new_incident_is_announced_with_the_key_in_force() -> None:
    session = demo_session(14)
    app = rebound_app(session, 14)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        session.book = demo_book()
        session.book.version = 99
        app.pump()
        app.pump()
        await pilot.pause()
        (notice,) = app._notifications
        assert f"{KEYMAP['app.incidents']} " in notice.message


def test_a_key_is_written_as_it_is_typed() -> None:
    binding = replace(BUILT_IN["app.freeze"], key="ampersand,f5,space,ctrl+x,pageup")
    assert keys.shown(binding) == ["&", "f5", "space", "ctrl+x", "page up"]
