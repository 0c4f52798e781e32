"""The log screen under keys in any order, while files grow, pages are late and views change."""

from __future__ import annotations

import random

import pytest

from tests.tui.logs.log_desk import RANK_5, Desk, log_desk
from tests.tui.logs.log_nodes import LogSession, clock, story, with_finding

KEYS = (
    *"eEwWnNmM78zoObuUTghjkrpPyt",
    *("up", "down", "left", "right", "pageup", "pagedown", "home", "end", "enter", "tab", "shift+tab"),
    *("escape", "left_square_bracket", "right_square_bracket", "ctrl+w", "ctrl+d", "ctrl+u"),
)
TYPED = (
    *(("c", "failed"), ("c", "0-7"), ("c", "silent"), ("c", "3"), ("c", "gpu-001")),
    *(("slash", "step 5"), ("slash", "nothing at all"), ("f", "!INFO"), ("f", ""), ("t", "12:02:03")),
)


def growing() -> LogSession:
    """Eight ranks, one of which failed; the rules know its line."""
    session = story()
    with_finding(session, "gpu-002", RANK_5, "ERROR allocator", 5)
    return session


async def test_panes_that_come_back_with_other_logs_are_laid_out_anew() -> None:
    async with log_desk(growing(), (200, 60)) as desk:
        await desk.type("c", "0-7")
        assert len(desk.panes) >= 8
        await desk.type("c", "5")
        for key in ("E", "left_square_bracket", "right_square_bracket"):
            await desk.pilot.press(key)
        await desk.type("c", "gpu-001,gpu-002")
        assert len(desk.panes) >= 8
        await desk.frames()


async def test_what_was_painted_stays_whole_when_the_lines_behind_it_are_gone() -> None:
    async with log_desk(growing()) as desk:
        await desk.type("c", "5")
        pane = desk.panes[0]
        before = [pane.render_line(y).text for y in range(1, pane.size.height)]
        assert pane.view is not None
        pane.view.buffers[0].replace([])  # a page of elsewhere took their place; no frame was made since
        assert [pane.render_line(y).text for y in range(1, pane.size.height)] == before
        assert pane.copy_text() == ""
        await desk.press("e", "o", "enter", "b", "y")


@pytest.mark.parametrize("mode", ["m", "M"])
async def test_keys_over_a_merged_view_of_no_file_do_nothing(mode: str) -> None:
    async with log_desk(LogSession({"gpu-001": []})) as desk:
        await desk.press(
            mode, "e", "E", "W", "n", "N", "enter", "y", "b", "o", "O", "z", "w", "end", "home", "t"
        )
        await desk.press("escape", "right_square_bracket", "left_square_bracket")
        desk.text()
    assert (desk.app.crash, desk.app.faults.count) == (None, 0)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
async def test_keys_in_any_order_never_end_the_log_screen(seed: int) -> None:
    rng = random.Random(seed)
    session = growing()
    async with log_desk(session, rng.choice([(120, 40), (80, 24), (200, 60)])) as desk:
        for step in range(80):
            await one_gesture(desk, session, rng, step)
            if desk.app.where != "logs":
                desk.app.action_fleet()
                await desk.press("3")
    assert desk.app.crash is None


async def one_gesture(desk: Desk, session: LogSession, rng: random.Random, step: int) -> None:
    """A key, something typed, lines that come, an answer that is late, or a frame."""
    what = rng.random()
    if what < 0.08 and desk.app.where == "logs" and not desk.screen.prompt.display:
        key, text = rng.choice(TYPED)
        await desk.pilot.press(key)
        if desk.app.where == "logs" and desk.screen.prompt.display:
            desk.screen.prompt.field.value = text
            await desk.pilot.press("enter")
    elif what < 0.2:
        rank = rng.randrange(8)
        lines = "\n".join(
            f"{clock(1000 + step)} INFO step {step}.{n}" for n in range(rng.choice([1, 5, 6000]))
        )
        session.write(f"gpu-{rank // 4 + 1:03}", f"/scratch/run7/logs/rank_{rank}.log", lines)
        await desk.frames(1)
    elif what < 0.25:
        session.hold = True
    elif what < 0.3:
        session.let_go()
    else:
        desk.app.simulate_key(rng.choice(KEYS))
        if rng.random() < 0.5:
            await desk.pilot.pause()
