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
    async with log_desk(growing(), (200, 60)) as workspace:
        await workspace.type("c", "0-7")
        assert len(workspace.panes) >= 8
        await workspace.type("c", "5")
        for key in ("E", "left_square_bracket", "right_square_bracket"):
            await workspace.pilot.press(key)
        await workspace.type("c", "gpu-001,gpu-002")
        assert len(workspace.panes) >= 8
        await workspace.frames()


async def test_what_was_painted_stays_whole_when_the_lines_behind_it_are_gone() -> None:
    async with log_desk(growing()) as workspace:
        await workspace.type("c", "5")
        pane = workspace.panes[0]
        before = [pane.render_line(y).text for y in range(1, pane.size.height)]
        assert pane.view is not None
        pane.view.buffers[0].replace([])  # a page of elsewhere took their place; no frame was made since
        assert [pane.render_line(y).text for y in range(1, pane.size.height)] == before
        assert pane.copy_text() == ""
        await workspace.press("e", "o", "enter", "b", "y")


@pytest.mark.parametrize("mode", ["m", "M"])
async def test_keys_over_a_merged_view_of_no_file_do_nothing(mode: str) -> None:
    async with log_desk(LogSession({"gpu-001": []})) as workspace:
        await workspace.press(
            mode, "e", "E", "W", "n", "N", "enter", "y", "b", "o", "O", "z", "w", "end", "home", "t"
        )
        await workspace.press("escape", "right_square_bracket", "left_square_bracket")
        workspace.text()
    assert (workspace.app.crash, workspace.app.faults.count) == (None, 0)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
async def test_keys_in_any_order_never_end_the_log_screen(seed: int) -> None:
    rng = random.Random(seed)
    session = growing()
    async with log_desk(session, rng.choice([(120, 40), (80, 24), (200, 60)])) as workspace:
        for step in range(80):
            await one_gesture(workspace, session, rng, step)
            if workspace.app.where != "logs":
                workspace.app.action_fleet()
                await workspace.press("3")
    assert workspace.app.crash is None


async def one_gesture(workspace: Desk, session: LogSession, rng: random.Random, step: int) -> None:
    """A key, something typed, lines that come, an answer that is late, or a frame."""
    what = rng.random()
    if what < 0.08 and workspace.app.where == "logs" and not workspace.screen.prompt.display:
        key, text = rng.choice(TYPED)
        await workspace.pilot.press(key)
        if workspace.app.where == "logs" and workspace.screen.prompt.display:
            workspace.screen.prompt.field.value = text
            await workspace.pilot.press("enter")
    elif what < 0.2:
        rank = rng.randrange(8)
        lines = "\n".join(
            f"{clock(1000 + step)} INFO step {step}.{n}" for n in range(rng.choice([1, 5, 6000]))
        )
        session.write(f"gpu-{rank // 4 + 1:03}", f"/scratch/run7/logs/rank_{rank}.log", lines)
        await workspace.frames(1)
    elif what < 0.25:
        session.hold = True
    elif what < 0.3:
        session.let_go()
    else:
        workspace.app.simulate_key(rng.choice(KEYS))
        if rng.random() < 0.5:
            await workspace.pilot.pause()
