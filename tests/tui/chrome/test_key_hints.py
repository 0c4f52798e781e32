"""The line of key hints with the mouse."""

from __future__ import annotations

from textual.widget import Widget

from gpuwatch.tui.chrome.key_hints import KeysLine
from tests.tui.still import demo_session, judged_session, still_app


def column_of(line: KeysLine, action: str) -> int:
    """Where the hint of an action begins."""
    before = 0
    for hint in line.hints:
        if hint.action == action:
            return before
        before += hint.width + 1
    raise AssertionError(action)


async def test_a_click_on_a_hint_presses_its_key_and_one_beside_it_presses_none() -> None:
    app = still_app(demo_session(20), 20)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        line = app.screen.query_one(KeysLine)
        at = column_of(line, "freeze")
        await pilot.click(Widget, offset=(at - 1, 39))
        await pilot.click(Widget, offset=(119, 39))
        assert not app.view_state.frozen
        await pilot.click(Widget, offset=(at, 39))
        await pilot.pause()
        assert app.view_state.frozen


async def test_the_hint_under_the_pointer_is_marked_and_explained() -> None:
    app = still_app(demo_session(20), 20)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        line = app.screen.query_one(KeysLine)
        plain = line.render()
        await pilot.hover(KeysLine, offset=(column_of(line, "freeze"), 0))
        assert line.tooltip
        assert line.render().spans != plain.spans
        await pilot.hover(Widget, offset=(5, 5))
        assert not line.tooltip
        assert line.render().spans == plain.spans


async def test_a_text_field_takes_the_keys_so_the_hints_are_its_own() -> None:
    app = still_app(demo_session(20), 20)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("slash")
        await pilot.pause()
        line = app.screen.query_one(KeysLine)
        assert [hint.key for hint in line.hints] == ["enter", "escape"]
        await pilot.press("escape")
        await pilot.pause()
        assert "slash" in [hint.key for hint in line.hints]


async def test_a_dialog_has_the_hints_of_its_own_keys_over_those_of_its_screen() -> None:
    app = still_app(judged_session(52), 52)
    shown = {"question_mark": ["slash", "escape"], "J": ["enter", "escape"], "colon": ["enter", "escape"],
             "C": ["enter"], "i": ["slash", "escape"]}  # fmt: skip
    async with app.run_test(size=(80, 24)) as pilot:
        for key, wanted in shown.items():
            await pilot.press(key)
            await pilot.pause()
            line = app.screen.query_one(KeysLine)
            assert sorted(hint.key for hint in line.hints) == sorted(wanted), key
            assert line.region.y == 23, key
            await pilot.press("escape")
            await pilot.pause()


async def test_keys_without_effect_have_no_hint() -> None:
    app = still_app(judged_session(52), 52)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("5")
        await pilot.pause()
        actions = {hint.action for hint in app.screen.query_one(KeysLine).hints}
        assert not actions & {"new_probe", "next_mode(1)", "zoom", "pane(1)"}
        await pilot.press("1", "enter", "enter")
        await pilot.pause()
        assert app.where == "gpu"
        assert "choose" not in {hint.action for hint in app.screen.query_one(KeysLine).hints}


async def test_the_note_of_a_long_list_of_columns_is_on_the_screen() -> None:
    app = still_app(demo_session(20), 20)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("C")
        await pilot.pause()
        assert app.screen.query_one(".box-note").region.bottom <= 23


async def test_a_notice_leaves_whole_hints_beside_it() -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        line = app.screen.query_one(KeysLine)
        widths = {}
        for text in ("", "incident acknowledged; a undoes it"):
            app.clear_notifications()
            if text:
                app.notify(text, timeout=600)
            for _ in range(9):
                await pilot.pause()
            app.pump()
            widths[text] = sum(hint.width + 1 for hint in line.hints) - 1
        notice = app.screen.query_one("Toast").region
        assert notice.y == line.region.y, "it stands on the line of the hints, and covers no evidence"
        assert widths[text] < notice.x < widths[""] <= 80
        assert {"help", "back_or_quit", "incidents"} <= {hint.action for hint in line.hints}
        await pilot.press("4")  # the notice of a new incident names this key
        for _ in range(9):
            await pilot.pause()
        assert not app.screen.query("Toast")


async def test_the_quit_key_says_back_where_it_goes_back() -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(80, 24)) as pilot:
        words = {}
        for key in "123456":
            await pilot.press(key)
            await pilot.pause()
            words[key] = next(h.description for h in app.screen.query_one(KeysLine).hints if h.key == "q")
        assert words.pop("1") == "Quit"
        assert set(words.values()) == {"Back"}
