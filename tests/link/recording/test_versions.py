"""A recording of each version that was ever written opens and shows its incident."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpuwatch.link.recording.schema import SCHEMA_VERSION
from gpuwatch.session.replay_session import ReplaySession

KEPT = sorted(Path(__file__).parent.glob("version_*.gpw"))
"""Fifty seconds, at the 45th of which GPU 5 of a node of the demo falls off the bus."""


@pytest.mark.parametrize("kept", KEPT, ids=[each.stem for each in KEPT])
def test_a_recording_of_an_older_version_shows_its_incident(kept: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(kept, tmp_path / "a.gpw"))
    with ReplaySession(path) as replay:
        replay.go_to(replay.extent[1])
        (incident,) = replay.book.incidents
        lost = [gpu.state for gpu in replay.fleet.nodes["gpu-011"].gpus.values()]
        assert replay.damaged == 0
    assert incident.cause is not None
    assert (incident.cause.code, lost.count("lost")) == ("gpu.xid.fell_off", 1)


def test_a_file_of_the_version_that_is_written_now_is_among_them() -> None:
    assert f"version_{SCHEMA_VERSION}.gpw" in [each.name for each in KEPT]
