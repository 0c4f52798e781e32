"""`?` opens at the keys of the screen below, and is searchable."""

from __future__ import annotations

import re

from textual.widgets import Input

from gpuwatch.clock import SessionClock
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.chrome.help_screen import HelpPage, HelpScreen, sections
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.model.preferences import Preferences
from gpuwatch.tui.toolkit import keys
from tests.tui.still import NOW, demo_session, still_app


async def test_help_opens_at_the_screen_below_and_is_searched() -> None:
    app = still_app(demo_session(14))
    async with app.run_test(size=(80, 24)) as pilot:
        for screen, section, own in (("6", "Training", "training.log"), ("3", "Logs", "logs.choose")):
            await pilot.press(screen, "question_mark")
            await pilot.pause()
            assert isinstance(app.screen, HelpScreen)
            page = app.screen.query_one(HelpPage)
            titles = [title for title, _ in sections(page.kind, page.search, {})]
            assert titles[0] == section
            assert len(titles) == len(keys.SECTIONS)
            binding = next(each for _, some in keys.SECTIONS for each in some if each.id == own)
            shown = [page.render_line(y).text for y in range(page.size.height)]
            assert any(re.match(rf" *{re.escape(keys.shown(binding)[0])} ", line) for line in shown)
            await pilot.press("slash", *"markdown", "enter")
            await pilot.pause()
            found = [each.id for _, some in sections(page.kind, page.search, {}) for each in some]
            assert found == ["app.copy.incident"]
            assert sum("Markdown" in page.render_line(y).text for y in range(page.size.height)) == 1
            await pilot.press("escape")
            await pilot.pause()
            assert isinstance(app.screen, HelpScreen)
            assert app.screen.query_one(Input).value == ""
            await pilot.press("escape", "1")
            await pilot.pause()
    assert sections("", "no such key at all", {}) == []


async def test_help_shows_the_keys_that_the_person_has_bound() -> None:
    own = Preferences(keys={"app.freeze": "f5,?", "app.help": "f2", "app.find": "f3"})
    app = GpuwatchApp(demo_session(14), clock=SessionClock(lambda: NOW), preferences=own)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f2")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        page = app.screen.query_one(HelpPage)
        assert "f3" in {hint.key for hint in app.screen.query_one(KeysLine).hints}
        for words, keys_shown in (("app.freeze", "f5 ?"), ("app.help", "f2")):
            await pilot.press("f3", *words, "enter")
            await pilot.pause()
            assert any(
                page.render_line(y).text.strip().startswith(f"{keys_shown} ") for y in range(page.size.height)
            )
            await pilot.press("escape")


async def test_the_palette_offers_every_action_of_the_screen_with_the_persons_key() -> None:
    own = Preferences(keys={"app.freeze": "f5"})
    app = GpuwatchApp(demo_session(14), clock=SessionClock(lambda: NOW), preferences=own)
    async with app.run_test(size=(120, 40)) as pilot:
        offered = {each.title: each for each in app.get_system_commands(app.screen)}
        wanted = [each for each in (*keys.EVERYWHERE, *keys.FLEET) if each.action != "command_palette"]
        assert {each.description for each in wanted} <= set(offered)
        assert offered["Freeze"].help.startswith("f5 ")
        await pilot.press("colon", *"freeze")
        await app.workers.wait_for_complete()
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert app.view_state.frozen
