"""A log that is called like a kernel log and holds the steps of a job ends as any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.ended_logs import report, steps


@pytest.mark.parametrize("name", ["spot-3.journal", "messages", "dmesg.txt"])
def test_the_end_of_a_job_in_a_journal_is_judged(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(steps(250, 9000))
    found = report(tmp_path)
    assert (found.end.state, found.end.step) == ("stopped", 250)
    assert [incident.code for incident in found.incidents] == ["unknown"]


@pytest.mark.parametrize("who", ["r5", "rank5", "worker5", "trainer", "INFO trainer"])
def test_steps_behind_the_name_of_the_logger_are_read(tmp_path: Path, who: str) -> None:
    lines = (f"2026-03-04T00:00:{step:02}Z {who} step {step} loss=2.08{step}\n" for step in range(1, 40))
    (tmp_path / "job.log").write_text("".join(lines))
    assert report(tmp_path).end.step == 39
