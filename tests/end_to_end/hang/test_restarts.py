"""A hang that nobody is left to have."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.diagnose.missing_ranks import vanished
from tests.end_to_end.launched import launched, quick_session
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT


@pytest.mark.long  # a drill over ssh looks at the same
def test_a_hang_closes_when_its_last_rank_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vanished, "SIBLINGS_S", 60.0)
    with (
        quick_session(monkeypatch) as session,
        launched(session, tmp_path / "job", "hung", "--stay", "--nproc", "3", wait=3) as job,
    ):
        job.until(lambda: session.fleet.progress.writers)
        for rank in range(3):
            job.order(rank, "hang")
        job.until(lambda: [one.code for one in job.incidents()] == ["job.hang"], seconds=60)
        job.launcher.kill()
        for rank in range(3):
            job.kill(rank)
        job.until(lambda: [(one.code, one.over) for one in job.incidents()] == [("job.hang", True)])
