"""Faults of jobs that run, and what only looks like one: stub ranks, real files, a real agent."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpuwatch.diagnose.missing_ranks import missing, vanished
from gpuwatch.report.once.problems.health import placed_conditions
from tests.end_to_end.cluster import watch
from tests.end_to_end.launched import Launched, launched, pause, quick_session
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = [*SEEN_BY_EVERY_AGENT, pytest.mark.long]

SHARED = ("--inherit", "--tag")
SAMPLE = """[sample] RuntimeError: CUDA out of memory. Tried to allocate 20.00 GiB
[sample] Traceback (most recent call last):
[sample]   File "train.py", line 3, in <module>
[sample] torch.distributed.DistBackendError: NCCL error: unhandled system error
[sample] and then the process was killed by signal 9, Segmentation fault (core dumped)"""
HANDLED = """WARNING: checkpoint of step 66 failed: [Errno 28] No space left on device: 'ckpt/66.pt'
Traceback (most recent call last):
  File "train.py", line 88, in save
OSError: [Errno 28] No space left on device: 'ckpt/66.pt'"""


def steps(job: Launched, rank: int) -> bool:
    """Whether several reports have brought steps of a rank."""
    writers = job.session.fleet.progress.writers.values()
    return any(len(one.steps) > 4 for one in writers if (one.job, one.rank) == (job.name, rank))


@pytest.mark.parametrize("text", [SAMPLE, HANDLED])
def test_an_error_that_a_rank_prints_and_outlives_is_never_an_incident(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quick_session(monkeypatch) as session, launched(session, tmp_path / "job", "prints", *SHARED) as job:
        job.until(lambda: steps(job, 0))
        job.order(0, f"print\n{text}")
        job.until(lambda: [one for one in session.book.alerts.values() if one.job == job.name])
        until = time.monotonic() + 12.0
        watch(session, lambda _fleet, now: bool(job.incidents()) or now > until, seconds=60)
        assert job.incidents() == []


def test_the_first_nan_of_a_file_that_several_ranks_write_is_that_of_its_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quick_session(monkeypatch) as session, launched(session, tmp_path / "job", "nan", *SHARED) as job:
        job.until(lambda: steps(job, 1))
        job.order(1, "nan")
        job.until(lambda: [one.rank for one in job.incidents()] == [1])
        lines = (job.folder / "launcher.out").read_text().splitlines()
        first = next(each.split("step ")[1].split("/")[0] for each in lines if each.endswith("nan"))
        job.until(lambda: f"step {first}" in job.incidents()[0].headline)


def test_plain_timers_of_a_rank_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "step 99000/100000 loss 2.1 | data 0.051 s | forward 0.602 s"
    with quick_session(monkeypatch) as session, launched(session, tmp_path / "job", "timers") as job:
        job.order(1, f"print\n{line}\n{line}")
        writers = session.fleet.progress.writers.values
        job.until(lambda: [one for one in writers() if one.phases.keys() >= {"data", "forward"}])
        assert job.incidents() == []


def test_a_rank_that_its_program_numbers_is_not_missed_while_it_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Lightning: rank 0 starts rank 1 and has no rank in its own environment."""
    monkeypatch.setattr(missing, "STARTED_S", 2.0)
    monkeypatch.setattr(vanished, "SIBLINGS_S", 3.0)
    with (
        quick_session(monkeypatch) as session,
        launched(session, tmp_path / "job", "inside", *SHARED, "--inside", wait=1) as job,
    ):
        job.until(lambda: steps(job, 0))
        pause(session, 12.0)
        assert job.incidents() == []
        found = [each.condition.code for each in placed_conditions(session.fleet, time.monotonic())]
        assert "rank_missing" not in found
        job.kill(1)
        job.until(lambda: [one.rank for one in job.incidents()] == [1])
