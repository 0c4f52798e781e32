"""A job that has just started: a report says that its training is not known yet, until its first step."""

from __future__ import annotations

from pathlib import Path
from time import monotonic, time

import pytest

from gpuwatch.diagnose.hang.silence.stepless_jobs import SteplessJob
from gpuwatch.report.once.problems.active import standing
from gpuwatch.report.once.text import report
from gpuwatch.session import Session
from tests.end_to_end.launched import launched, quick_session
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT


def _stepless(session: Session) -> dict[str | None, SteplessJob]:
    stands = standing(session.book, session.fleet, monotonic(), time())
    return {each.job: each for each in stands.stepless}


def _verdict(session: Session) -> str:
    stands = standing(session.book, session.fleet, monotonic(), time())
    return report(session.fleet, [], monotonic(), time(), stands).verdict.text


def test_a_job_that_has_printed_nothing_is_no_part_of_an_all_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, control = time(), tmp_path / "job" / "ctl"
    control.mkdir(parents=True)
    for rank in range(2):
        (control / f"rank{rank}").write_text("load")
    with quick_session(monkeypatch) as session, launched(session, tmp_path / "job", "silent") as job:
        known = _stepless(session)[job.name]
        assert (known.ranks, known.line_s) == (2, None)
        assert 0.0 <= known.started_s <= time() - begun + 1.0
        job.until(lambda: job.name in _verdict(session))
        assert "all healthy" not in _verdict(session)
        for rank in range(2):
            (control / f"rank{rank}").unlink()
        job.until(lambda: job.name not in _stepless(session))
        assert any(each.value("step") for each in session.fleet.progress.writers.values())
