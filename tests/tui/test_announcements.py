"""A new incident reaches the desktop and the terminal's title where the person wants that, and harmlessly."""

from __future__ import annotations

import re

from msgspec import structs

from gpuwatch.tui.model.preferences import Preferences
from tests.tui.counting import on_terminal
from tests.tui.scripted_alerts import demo_book, demo_incident
from tests.tui.still import demo_session, still_app

HOSTILE = "rank 3: \x1b]0;owned\x07 a;b \x9c\u202e end" + "x" * 500


async def written_for(preferences: Preferences) -> str:
    """What the terminal is sent when an incident comes."""
    session = demo_session(95)
    app = still_app(session, 95)
    app.preferences = preferences
    async with on_terminal(app, (80, 24)) as driver:
        session.book = demo_book()
        session.book.incidents[:] = [structs.replace(demo_incident(), headline=HOSTILE)]
        session.book.version = 99
        app.pump()
        app.pump()
    return "".join(driver.written)


async def test_nothing_leaves_the_screen_unless_it_is_wanted() -> None:
    assert "\x1b]" not in await written_for(Preferences())


async def test_an_incident_is_notified_once_and_cannot_inject_codes() -> None:
    sent = await written_for(Preferences(notify=True, title=True))
    for code in ("9;", "777;notify;gpuwatch;", "2;"):
        (text,) = re.findall(rf"\x1b\]{code}(gpuwatch incident 1: [^\x1b]*)\x1b\\", sent)
        assert text.isprintable()
        assert ";" not in text
        assert len(text) <= 200
    assert "\x1b]0;" not in sent
    assert sent.index("\x1b[22;2t") < sent.index("\x1b]2;") < sent.index("\x1b[23;2t")
