"""`D`: the question whom everyone waits for, its answers as they come, and what is kept with the incident."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from gpuwatch.diagnose.hang.flight_recorder.job_dumps import FlightEvidence, JobDumps
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.report.incidents.json_output import incident_facts
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.hang.report_page import WRITE, HangReportPage
from gpuwatch.tui.hang.screen import WaitingScreen
from tests.sentences import Sentences, line_of
from tests.tui.hang.hang_answers import CULPRIT, Asked
from tests.tui.screen_text import text_on
from tests.tui.scripted_alerts import StillBook
from tests.tui.still import NOW, judged_session, still_app

SECOND = 52.0


def asking_app(size_ascii: bool = False) -> tuple[GpuwatchApp, Asked]:
    session = judged_session(SECOND)
    session.query = Asked()
    return still_app(session, SECOND, ascii_only=size_ascii), session.query


def judged(app: GpuwatchApp) -> None:
    """The book takes in what was heard; it judges in slices of time."""
    session: Any = app.view_state.session
    before = session.book.version
    while session.book.version == before:
        session.book.update(session.fleet, NOW + 60, EPOCH + SECOND)


def flat(app: GpuwatchApp) -> str:
    return " ".join(text_on(app).split())


async def frames(pilot: Pilot[None], app: GpuwatchApp) -> None:
    app.pump()
    await pilot.pause()
    app.pump()
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_the_rank_waited_for_is_shown_with_the_commands_and_kept(size: tuple[int, int]) -> None:
    app, asked = asking_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press("D")
        await frames(pilot, app)
        assert isinstance(app.screen, WaitingScreen)
        assert "128 ranks sampled" in flat(app)
        assert "waiting for gpu-001, gpu-011" in flat(app)
        asked.answer()
        await frames(pilot, app)
        shown = flat(app)
        assert "rank 85 (gpu-010 GPU 5) is in data_loader_next (train.py:9)" in shown
        assert "D: refresh" in shown
        assert "py-spy dump --pid 52005" in shown
        await pilot.press("minus", "4")
        judged(app)
        await frames(pilot, app)
        assert "Hang analysis (stacks)" in flat(app)
        assert "rank 85 (gpu-010 GPU 5) is in data_loader_next" in flat(app)
        assert "ssh gpu-011 py-spy dump --pid 52005" in flat(app)
        (incident,) = app.view_state.snapshot.incidents
        facts = incident_facts(incident)["heard"]
        assert facts["culprits"] == [CULPRIT]
        assert "scancel 418207" in [step["command"] for step in facts["do"]]


@pytest.mark.parametrize("ranks", [0, 128])
async def test_only_a_job_that_runs_is_said_to_lack_dump_pipes(ranks: int) -> None:
    app, asked = asking_app()
    asked.dumps, asked.asked = FlightEvidence(), ranks
    asked.answer()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("D")
        await frames(pilot, app)
        assert ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE" in flat(app)) is bool(ranks)


async def test_a_command_can_be_copied_from_the_incident_too() -> None:
    app, asked = asking_app()
    asked.answer()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("4", "D")
        await frames(pilot, app)
        await pilot.press("minus")
        judged(app)
        await frames(pilot, app)
        await pilot.press("down", "g")
        for _ in range(6):
            await pilot.press("down", "y")
            if app.clipboard.startswith("scancel"):
                break
        assert app.clipboard == "scancel 418207"


async def test_what_was_asked_before_there_was_an_incident_comes_to_it() -> None:
    app, asked = asking_app()
    session: Any = app.view_state.session
    book, session.book = session.book, StillBook()
    session.book.version = -1
    asked.answer()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("D")
        await frames(pilot, app)
        session.book = book
        await frames(pilot, app)
        judged(app)
        (incident,) = app.view_state.snapshot.incidents
        assert incident.hang_check is not None
        assert incident.hang_check.verdict.culprits == (CULPRIT,)


async def test_fresh_dumps_need_a_key_of_their_own(sentences: Sentences) -> None:
    app, asked = asking_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("D", "F")
        await frames(pilot, app)
        assert asked.wrote == 0
        asked.answer()
        asked.dumps = FlightEvidence(may_write=(0, 1, 2), places=("/shared/dumps/rank_",))
        await frames(pilot, app)
        sentences(line_of(text_on(app), "F or enter", "0-2"))
        assert "/shared/dumps/rank_" in flat(app)
        assert asked.wrote == 0
        await pilot.press("F")
        assert asked.wrote == 1
        app.screen.query_one(HangReportPage).go_to(WRITE)
        await pilot.press("enter")
        assert asked.wrote == 2


async def test_without_a_pipe_the_missing_setting_is_stated(sentences: Sentences) -> None:
    app, asked = asking_app()
    asked.answer()
    asked.dumps = FlightEvidence(
        jobs=(JobDumps("418207", 128, (), dict.fromkeys(range(128), "none is there")),),
        places=("/shared/dumps/rank_",),
    )
    async with app.run_test(size=(120, 60)) as pilot:
        await pilot.press("D")
        await frames(pilot, app)
        assert "0 of 128 dumps" in flat(app)
        sentences(line_of(text_on(app), "ranks 0-127"))
        assert "TORCH_NCCL_DEBUG_INFO_PIPE_FILE" in flat(app)


async def test_without_a_running_rank_that_is_stated_and_not_a_zero(sentences: Sentences) -> None:
    app, asked = asking_app()
    asked.asked, asked.waiting = 0, []
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("D")
        await frames(pilot, app)
        sentences(line_of(text_on(app), "no rank"))
        assert "0 ranks" not in flat(app)


async def test_a_command_can_be_copied() -> None:
    app, asked = asking_app()
    asked.answer()
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("D")
        await frames(pilot, app)
        page = app.screen.query_one("#hang-report")
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
        second = app.view_state.session.query = Asked()  # type: ignore[attr-defined]
        await pilot.press("D")
        second.answer()
        await frames(pilot, app)
        assert app.screen is first
        assert "data_loader_next" in flat(app)
