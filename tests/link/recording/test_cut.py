"""A stretch of time as a file of its own: from a recording, and from the ring of a running session."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from gpuwatch.link.recording.cut import cut_recording, cut_ring
from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.schema import RecordingError
from gpuwatch.session.replay_session import ReplaySession
from tests.recordings import PlayedSession, recorded_demo


@pytest.fixture(scope="module")
def whole() -> tuple[Path, PlayedSession]:
    return recorded_demo().path, recorded_demo().session


def seen_at(path: Path, at: float) -> tuple[list[str], list[int | None]]:
    with ReplaySession(path) as replay:
        replay.go_to(at)
        ranks = [process.rank for node in replay.fleet.nodes.values() for process in node.processes]
        return [incident.headline for incident in replay.book.incidents], ranks


@pytest.mark.parametrize("of", ["recording", "ring"])
def test_the_minute_around_an_incident_shows_what_the_whole_recording_shows(
    whole: tuple[Path, PlayedSession], tmp_path: Path, of: str
) -> None:
    path, session = whole
    with closing(Recording(path)) as recording:
        middle = recording.incidents()[0].at / 1e6 - 3
        if of == "recording":
            cut_recording(recording, middle, middle + 12, tmp_path / "cut.gpw")
        else:
            assert session.tee is not None
            cut_ring(session.tee, session.plan, middle, middle + 12, tmp_path / "cut.gpw")
    assert seen_at(tmp_path / "cut.gpw", middle + 10) == seen_at(path, middle + 10)
    assert seen_at(path, middle + 10)[0]
    assert (tmp_path / "cut.gpw").stat().st_size < path.stat().st_size
    assert (tmp_path / "cut.gpw").stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["cut.gpw"]


def test_nothing_is_left_of_a_cut_outside_of_the_recording(
    whole: tuple[Path, PlayedSession], tmp_path: Path
) -> None:
    with (
        closing(Recording(whole[0])) as recording,
        pytest.raises(RecordingError, match="nothing was"),
    ):
        cut_recording(recording, 10.0, 20.0, tmp_path / "cut.gpw")
    assert not list(tmp_path.iterdir())
