"""A stretch of time as a file of its own: from a recording, and from the ring of a running session."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from gpuwatch.clock import SessionClock
from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.link.recording.cut import cut_recording, cut_ring
from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.schema import RecordingError
from gpuwatch.link.recording.tee import StreamTee
from gpuwatch.session.replay_session import ReplaySession
from tests.link.demo.story import frames_until
from tests.link.recording.recordings import NoBook, recorded_demo


def seen_at(path: Path, at: float) -> tuple[list[str], list[int | None]]:
    with ReplaySession(path) as replay:
        replay.go_to(at)
        ranks = [process.rank for node in replay.fleet.nodes.values() for process in node.processes]
        return [incident.headline for incident in replay.book.incidents], ranks


def test_the_minute_around_an_incident_shows_what_the_whole_recording_shows(tmp_path: Path) -> None:
    path, cut = recorded_demo().path, tmp_path / "cut.gpw"
    with closing(Recording(path)) as recording:
        first = recording.incidents()[0].at / 1e6 - 3
        cut_recording(recording, first, first + 12, cut)
    assert seen_at(cut, first + 10) == seen_at(path, first + 10)
    assert seen_at(cut, first + 10)[0]
    assert cut.stat().st_size < path.stat().st_size
    assert cut.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["cut.gpw"]


def test_the_ring_of_a_session_is_cut_the_same_way(tmp_path: Path) -> None:
    now = 0.0
    tee = StreamTee(["gpu-001"], NoBook(), SessionClock(lambda: now, lambda: now))
    for arrival in frames_until(50.0, 50.0):
        if arrival.node == "gpu-001":
            now = arrival.at
            tee.take([arrival], now)
    cut_ring(tee, demo_plan(), 30.0, 45.0, tmp_path / "cut.gpw")
    assert seen_at(tmp_path / "cut.gpw", 44.0)[1].count(None) == 0
    with closing(Recording(tmp_path / "cut.gpw")) as recording:
        assert 10 < recording.first / 1e6 <= 30
        assert 44 < recording.last / 1e6 < 47


def test_nothing_is_left_of_a_cut_outside_of_the_recording(tmp_path: Path) -> None:
    with (
        closing(Recording(recorded_demo().path)) as recording,
        pytest.raises(RecordingError, match="nothing was"),
    ):
        cut_recording(recording, 10.0, 20.0, tmp_path / "cut.gpw")
    assert not list(tmp_path.iterdir())
