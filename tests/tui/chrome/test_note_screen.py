"""The box for a note takes what a person types."""

from __future__ import annotations

from gpuwatch.tui.chrome.dialogs.note_screen import NoteScreen
from tests.tui.shots import plan_for
from tests.tui.still import demo_session, still_app


async def test_a_minus_belongs_to_the_note_and_escape_discards_it() -> None:
    app, taken = still_app(demo_session(1.0, plan_for(1)), 1.0), list[str]()
    async with app.run_test() as pilot:
        app.push_screen(NoteScreen("Note", taken.append))
        await pilot.pause()
        await pilot.press(*"gpu-3 -r", "enter")
        assert taken == ["gpu-3 -r"]
        app.push_screen(NoteScreen("Note", taken.append))
        await pilot.pause()
        await pilot.press(*"no", "escape")
        assert not isinstance(app.screen, NoteScreen)
    assert taken == ["gpu-3 -r"]
