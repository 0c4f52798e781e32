"""Patterns that a person types on the log screen, over lines that a job chose."""

from __future__ import annotations

from tests.rules.compiling.costs import at_most
from tests.tui.logs.log_desk import log_desk
from tests.tui.logs.log_nodes import FakeFile, LogSession

PATH = "/logs/rank_0.log"


def one_rank(text: str) -> LogSession:
    session = LogSession({"gpu-001": [FakeFile(PATH, [0])]})
    session.write("gpu-001", PATH, text)
    return session


async def test_no_pattern_stops_the_screen() -> None:
    async with log_desk(one_rank("a" * 4000)) as desk:
        for key in ("f", "slash"):
            with at_most(20.0):
                await desk.type(key, "(a+)+b")
                assert desk.screen.prompt.display  # it is refused beside the text
                await desk.press("escape")
        await desk.type("f", "a.*b")
        assert desk.screen.opened.filter_text == "a.*b"


async def test_a_filter_that_is_given_up_shows_all_lines_again() -> None:
    async with log_desk(one_rank("one\ntwo")) as desk:
        await desk.type("f", "one")
        view = desk.screen.pane.view
        assert view is not None
        assert view.sheet.keep is not None
        assert view.sheet.kept == 1
        view.sheet.keep.is_given_up = True
        await desk.frames()
        assert view.sheet.kept == 2
        assert desk.screen.opened.filter_note
