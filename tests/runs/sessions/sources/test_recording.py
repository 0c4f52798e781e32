"""A recording as a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.runs.sessions.find import find_sessions
from tests.link.recording.recordings import recorded_demo


@pytest.mark.long
def test_a_recording_is_a_session_of_its_gpus_and_steps(tmp_path: Path) -> None:
    (session,) = find_sessions((str(recorded_demo().path),), tmp_path).sessions
    summary = session.summary
    assert (session.source, summary.gpu_count, summary.node_count, summary.mode) == (
        "recording",
        128,
        16,
        "multi",
    )
    assert (summary.gpus or [])[0].utilization_avg_pct is not None
    loss = session.curves.named("loss")[0].points
    assert summary.steps == (loss[-1].step or 0) - (loss[0].step or 0)
    assert 30 < (summary.duration_s or 0) < 90
    assert session.problems == []


@pytest.mark.long
def test_a_file_that_only_looks_like_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.gpw"
    path.write_bytes(recorded_demo().path.read_bytes()[:5000])
    (session,) = find_sessions((str(path),), tmp_path).sessions
    assert session.problems
