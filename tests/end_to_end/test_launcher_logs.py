"""A rank that is killed under a launcher: only the launcher's own output tells how it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.launched import launched, quick_session
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT


def test_a_killed_rank_is_named_by_the_output_of_its_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quick_session(monkeypatch) as session, launched(session, tmp_path / "job", "killed") as job:
        job.until(lambda: "launcher.out" in job.files())
        assert job.files()["launcher.out"].pids == [job.launcher.pid]
        job.kill(1)
        job.until(lambda: [(one.code, one.rank) for one in job.incidents()] == [("rank.killed", 1)])
