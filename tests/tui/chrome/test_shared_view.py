"""A view of another process's session, as in a browser: what its keys do not do."""

from __future__ import annotations

from textual.actions import parse

from gpuwatch.session.replay_session import ReplaySession
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.model.session_protocol import SharedView
from gpuwatch.tui.toolkit import keys
from tests.link.recording.recordings import recorded_demo
from tests.tui.screen_text import text_on

LOOKING = frozenset((
    "back", "back_or_quit", "bookmark", "bookmarks", "choose", "choose_logs", "clocks", "columns",
    "command_palette", "copy", "copy_incident", "explain", "faster", "filter", "filter_lines", "fleet",
    "focus_next", "focus_previous", "folding", "freeze", "go_to_time", "help", "hit", "incidents", "jobs",
    "jump_to_end", "jump_to_incident", "level", "logs", "minutes", "move", "next_bookmark", "next_error",
    "next_item", "next_mode", "next_rank", "node", "pages", "pane", "quit", "reverse", "slower", "sort",
    "speed", "step", "training", "unfold", "unhealthy", "waiting", "wrap", "zoom",
))  # fmt: skip
"""Actions of keys that change nothing for others: a new key is of these only after a look at what it does."""
OF_ALL = frozenset(("acknowledge", "silence", "retry", "write_dumps"))


def test_a_key_that_is_not_known_to_look_alone_is_refused() -> None:
    actions = {parse(binding.action)[1] for _, rows in keys.SECTIONS for binding in rows}
    read_only, changing = SharedView(changes=False), SharedView(changes=True)
    assert {action for action in actions if not read_only.refusal(action)} == LOOKING
    assert {action for action in actions if not changing.refusal(action)} == LOOKING | OF_ALL


async def test_refused_keys_say_why_and_do_nothing() -> None:
    with ReplaySession(recorded_demo().path) as session:
        session.player.pause()
        session.go_to(session.extent[1])
        app = GpuwatchApp(session, clock=session.clock)
        app.shared_view = SharedView(changes=False)
        async with app.run_test(size=(140, 40)) as pilot:
            assert "READ-ONLY" in text_on(app)
            await pilot.press("4", "a")
            assert not session.book.incidents[0].acknowledged
            assert [note.message for note in app._notifications] == [app.shared_view.refusal("acknowledge")]
            await pilot.press("5")
            assert app.where == "incidents"
            await pilot.press("A")
            assert app.where == "incidents"
            app.write_note(session.book.incidents[0].id)
            await pilot.pause()
            assert app.where == "incidents"
