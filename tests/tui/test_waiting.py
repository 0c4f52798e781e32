"""`D`: the question whom everyone waits for, its answers as they come, and what is kept with the incident."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.pilot import Pilot

from gpuwatch.diagnose.hang.remedy import advised
from gpuwatch.diagnose.stacks import RankStack
from gpuwatch.diagnose.waiting import Hearing, hear
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.screens.waiting import WaitingScreen
from tests.diagnose.test_stacks import LOADS, WAITS, python
from tests.tui.still import judged_session, still_app
from tests.tui.test_screens import text_on

CULPRIT = 85
SECOND = 52.0


class Asked:
    """An inquiry whose answers come when the test says so."""

    def __init__(self) -> None:
        self.version = 0
        self.answers: list[RankStack] = []
        self.waiting = ["gpu-001", "gpu-011"]
        self.asked = 128
        self.told = 0
        self.progress = ""

    @property
    def over(self) -> bool:
        return not self.waiting

    def update(self) -> bool:
        moved, self.told = len(self.answers) != self.told, len(self.answers)
        return moved

    def hearing(self, fleet: Fleet) -> Hearing:
        return advised(hear(self.answers, (), {}, lambda _host, _pid: None), fleet)

    def write_dumps(self) -> bool:
        return False

    def answer(self) -> None:
        """Everybody does: one is in its data loader."""
        ranks = (python(rank, LOADS if rank == CULPRIT else WAITS) for rank in range(128))
        self.answers = [replace(each, job="418207") for each in ranks]
        self.waiting = []


def asking_app(size_ascii: bool = False) -> tuple[GpuwatchApp, Asked]:
    session = judged_session(SECOND)
    session.inquiry = Asked()
    return still_app(session, SECOND, ascii_only=size_ascii), session.inquiry


def flat(app: GpuwatchApp) -> str:
    return " ".join(text_on(app).split())


async def frames(pilot: Pilot[None], app: GpuwatchApp) -> None:
    app.pump()
    await pilot.pause()
    app.pump()
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_who_is_waited_for_is_said_with_the_commands_and_kept(size: tuple[int, int]) -> None:
    app, asked = asking_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press("D")
        await frames(pilot, app)
        assert isinstance(app.screen, WaitingScreen)
        assert "128 ranks asked" in flat(app)
        assert "waiting for gpu-001, gpu-011" in flat(app)
        asked.answer()
        await frames(pilot, app)
        shown = flat(app)
        assert "rank 85 (gpu-010 GPU 5) is in data_loader_next (train.py:9)" in shown
        assert "D asks again" in shown
        assert "py-spy dump --pid 52005" in shown
        await pilot.press("minus", "4")
        await frames(pilot, app)
        assert "Who everyone waits for" in flat(app)
        assert "rank 85 (gpu-010 GPU 5) is in data_loader_next" in flat(app)


async def test_where_no_rank_runs_that_is_said_and_not_a_zero() -> None:
    app, asked = asking_app()
    asked.asked, asked.waiting = 0, []
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("D")
        await frames(pilot, app)
        assert "no rank of a job runs on these nodes" in flat(app)
        assert "0 ranks" not in flat(app)


async def test_a_command_can_be_copied() -> None:
    app, asked = asking_app()
    asked.answer()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("D")
        await frames(pilot, app)
        page = app.screen.query_one("#hearing")
        assert page.has_focus
        for _ in range(20):
            await pilot.press("y")
            if app.clipboard.startswith("scancel"):
                break
            await pilot.press("down")
        assert app.clipboard == "scancel 418207"


async def test_asking_again_is_another_question() -> None:
    app, _asked = asking_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("D")
        await frames(pilot, app)
        first = app.screen
        second = app.scene.session.inquiry = Asked()  # type: ignore[attr-defined]
        await pilot.press("D")
        second.answer()
        await frames(pilot, app)
        assert app.screen is first
        assert "data_loader_next" in flat(app)
