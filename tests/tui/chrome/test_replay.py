"""The keys of a recording: pause, step, speed, incidents, a time; and R, which makes one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.session.replay_session import ReplaySession
from gpuwatch.session.session_recording import SessionRecording
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.chrome.dialogs.time_screen import TimeScreen
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.hang.screen import WaitingScreen
from gpuwatch.tui.logs.screen import LogsScreen
from gpuwatch.wire import NOT_RECORDED
from tests.link.recording.recordings import PlayedSession, demo_story, recorded_demo
from tests.tui.screen_text import text_on


@pytest.fixture
def replay() -> Iterator[ReplaySession]:
    with ReplaySession(recorded_demo().path) as session:
        session.player.pause()
        yield session


def app_over(session: ReplaySession) -> GpuwatchApp:
    return GpuwatchApp(session, clock=session.clock)


async def test_the_keys_of_a_recording(replay: ReplaySession) -> None:
    app = app_over(replay)
    first, last = replay.extent
    incident = replay.incident_moments()[0][0]
    async with app.run_test(size=(160, 30)) as pilot:
        await pilot.press("}")
        assert replay.position == incident
        assert app.view_state.snapshot.leading is not None
        assert "Xid 79" in text_on(app)
        hints = {hint.action: hint.description for hint in app.screen.query_one(KeysLine).hints}
        assert hints["freeze"].lower().startswith("play")
        await pilot.press(",")
        assert replay.position == pytest.approx(incident - 1, abs=1e-3)
        assert app.view_state.snapshot.leading is None
        await pilot.press(".")
        assert replay.position == pytest.approx(incident, abs=1e-3)
        await pilot.press("}")
        assert replay.position == pytest.approx(incident, abs=1e-3), "there is no later one"
        await pilot.press(">", ">", "<")
        assert replay.speed == 2.0
        await pilot.press("p")
        assert replay.playing
        await pilot.press("p")
        assert not replay.playing
        await pilot.press("t")
        assert isinstance(app.screen, TimeScreen)
        await pilot.press(*"+1h", "enter")
        assert isinstance(app.screen, TimeScreen), "outside of the recording"
        await pilot.press(*["backspace"] * 3, *"-20s", "enter")
        assert replay.position < incident - 15
        assert first <= replay.position <= last


async def test_the_line_of_an_incident_is_shown_although_nobody_read_its_file(replay: ReplaySession) -> None:
    app = app_over(replay)
    replay.go_to(replay.extent[1])
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        incident = app.view_state.snapshot.leading
        assert incident is not None
        assert incident.cause is not None
        app.show_alert(incident.cause, incident)
        await pilot.pause()
        app.pump()
        await pilot.pause()
        assert "NVRM" in text_on(app)


async def test_what_needs_a_node_is_not_in_the_recording(replay: ReplaySession) -> None:
    replay.go_to(replay.incident_moments()[0][0])
    asked = replay.ask_rank_settings("gpu-001")
    replay.poll()
    assert asked.error == NOT_RECORDED
    search = replay.search("gpu-001", "loss")
    replay.poll()
    assert search.error == NOT_RECORDED


async def test_the_screens_say_what_only_nodes_can_answer(replay: ReplaySession) -> None:
    app = app_over(replay)
    replay.go_to(replay.extent[1])
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("5", "enter")
        await pilot.pause()
        assert any(NOT_RECORDED in each.message for each in app._notifications)
        assert not replay.probes
        app.clear_notifications()
        await pilot.press("D")
        for _ in range(3):
            app.pump()
            await pilot.pause()
        assert isinstance(app.screen, WaitingScreen)
        assert NOT_RECORDED in text_on(app)
        assert app.screen.check_action("write_dumps", ()) is False


async def test_a_search_that_was_not_recorded_is_no_search_without_matches(replay: ReplaySession) -> None:
    app = app_over(replay)
    replay.go_to(replay.incident_moments()[0][0])
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3")
        await pilot.pause()
        await pilot.press("/", *"qwertz", "enter")
        await pilot.pause()
        app.pump()
        await pilot.press("n")
        assert isinstance(app.screen, LogsScreen)
        assert app.screen.workspace.searching.note == NOT_RECORDED


async def test_r_records_what_the_session_still_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = PlayedSession(demo_plan(), demo_story(20))
    session.keep_stream()
    session.run(15)
    app = GpuwatchApp(session, clock=session.clock)
    app.recording = SessionRecording(session)
    async with app.run_test() as pilot:
        await pilot.press("R")
        session.run(20)
        assert app.recording.status
        await pilot.press("R")
        assert not app.recording.status
    (path,) = tmp_path.glob("*.gpw")
    with ReplaySession(path) as replayed:
        first, last = replayed.extent
        assert last - first == pytest.approx(20, abs=1.5)
