"""A rank that is killed: only the launcher's own output tells how it ended, or nothing does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpuwatch.diagnose.missing_ranks import missing, vanished
from gpuwatch.diagnose.missing_ranks.missing import missing_ranks
from gpuwatch.diagnose.model.failure_classes import VANISHED
from gpuwatch.report.once.problems.health import placed_conditions
from gpuwatch.report.once.problems.pending import pending
from tests.end_to_end.cluster import watch
from tests.end_to_end.launched import launched, pause, quick_session
from tests.parts import SEEN_BY_EVERY_AGENT

KILLED = "rank.killed"

pytestmark = SEEN_BY_EVERY_AGENT


@pytest.mark.long  # a drill of two nodes is among the others
def test_a_killed_rank_is_named_by_the_output_of_its_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quick_session(monkeypatch) as session, launched(session, tmp_path / "job", "killed") as job:
        job.until(lambda: "launcher.out" in job.files())
        assert job.files()["launcher.out"].pids == [job.launcher.pid]
        hints = [one for one in session.book.alerts.values() if one.job == job.name]
        assert [one.code for one in hints if one.severity != "info"] == []
        killed_at = time.time()
        job.kill(1)
        job.until(lambda: [(one.code, one.rank) for one in job.incidents()] == [("rank.killed", 1)])
        assert job.incidents()[0].first >= killed_at - 1.0  # not that of the warnings at the start


def test_a_rank_that_vanishes_beside_its_siblings_is_reported_with_a_cause_only_where_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vanished, "SIBLINGS_S", 3.0)
    with (
        quick_session(monkeypatch) as session,
        launched(session, tmp_path / "job", "stays", "--stay", "--nproc", "3", wait=3) as job,
    ):
        pause(session, vanished.EVERY_S)  # it looks at the ranks that often
        job.kill(1)
        ends = ([(VANISHED, 1)], [(KILLED, 1)])  # the status is read on Linux 5.3 and later
        job.until(lambda: [(one.code, one.rank) for one in job.incidents()] in ends)
        (incident,) = job.incidents()
        assert ("killed" in incident.headline) == (incident.code == KILLED)


@pytest.mark.long
def test_a_rank_that_died_before_gpuwatch_came_is_missed_beside_its_siblings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing, "STARTED_S", 2.0)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    with (
        quick_session(monkeypatch) as session,
        launched(session, tmp_path / "job", "stays", "--stay", "--nproc", "3", wait=3) as job,
    ):
        job.kill(1)
        with quick_session(monkeypatch) as later:
            watch(
                later,
                lambda fleet, now: (
                    [(one.job, one.rank) for one in missing_ranks(fleet, now)] == [(job.name, 1)]
                ),
            )
            codes = [each.condition.code for each in placed_conditions(later.fleet, time.monotonic())]
            assert codes.count("rank_missing") == 1


def test_ranks_that_end_at_the_announced_last_step_or_all_together_are_no_incident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vanished, "SIBLINGS_S", 6.0)
    with (
        quick_session(monkeypatch) as session,
        launched(session, tmp_path / "a", "ends", "--total", "25", "--stay", wait=2) as ends,
        launched(session, tmp_path / "b", "stopped", wait=2) as stopped,
    ):
        ends.order(0, "hang")
        ends.until(lambda: list(ends.ranks()) == [0])
        stopped.launcher.kill()
        for rank in (0, 1):
            stopped.kill(rank)
        pause(session, 8.0)
        assert [one.code for one in ends.incidents() + stopped.incidents() if one.code == VANISHED] == []


def test_ranks_whose_output_goes_nowhere_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        quick_session(monkeypatch) as session,
        launched(session, tmp_path / "job", "mute", "--nowhere", "--nproc", "3", wait=3) as job,
    ):

        def reported() -> bool:
            parts = pending(session.fleet, time.monotonic())
            return any(
                one.part == "rank_log" and job.name in one.text and "ranks 0-2" in one.text for one in parts
            )

        job.until(reported)
