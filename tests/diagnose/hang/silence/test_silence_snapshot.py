"""Silent jobs in one look: after two windows, or one where a step came every fraction of a second."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.hang.hang_watch import HangWatch
from gpuwatch.diagnose.hang.silence.silence_snapshot import silent_jobs
from gpuwatch.diagnose.hang.silence.silent_watch import SilentWatch
from gpuwatch.diagnose.model.text import clock
from gpuwatch.hosts.plan import Thresholds
from tests.fleet.jobs.two_jobs import WALL, Several, rank
from tests.fleet.logs.reporting import report


@pytest.mark.parametrize(
    ("gap_s", "silent_s", "listed", "stalled"),
    [
        (0.25, 85.0, True, False),  # longer than an evaluation in most jobs
        (0.25, 50.0, False, False),
        (2.0, 85.0, False, False),
        (2.0, 130.0, True, True),
        (None, 85.0, False, False),
        (None, 130.0, True, False),
    ],
)
def test_a_silence_is_reported_by_how_often_steps_came(
    gap_s: float | None, silent_s: float, *, listed: bool, stalled: bool
) -> None:
    reported = Several()
    ranks = [rank(number, 900 + number, 2, start=WALL - 500.0) for number in range(2)]
    ranks = [structs.replace(each, job="4711") for each in ranks]
    reported.run("n1", *ranks)
    grown = WALL + 100.0
    files = [wire.LogFile(each.logs[0], grown_at=grown, pids=[each.pid]) for each in ranks]
    reported.list_files("n1", *files)
    (job,) = {each.job for each in reported.fleet.nodes["n1"].processes}
    for step in range(20 if gap_s else 0):
        report(reported.fleet.progress, {"step": step}, 50.0 + step * (gap_s or 0.0), rank=0, job=job)
    found = silent_jobs(reported.fleet.nodes.values(), 60.0, grown + silent_s, reported.fleet.progress)
    assert [each.is_stalled for each in found] == [stalled] * listed
    if listed and gap_s:
        assert f"{gap_s:.2g} s" in found[0].text


@pytest.mark.parametrize(("states", "listed"), [("RT", True), ("TT", False), ("RR", False)])
def test_a_rank_that_is_stopped_alone_is_reported_before_the_window_ends(
    states: str, *, listed: bool
) -> None:
    reported = Several()
    ranks = [
        structs.replace(rank(number, 900 + number, 2, start=WALL - 500.0), job="4711", state=state)
        for number, state in enumerate(states)
    ]
    reported.run("n1", *ranks)
    reported.list_files("n1", *(wire.LogFile(each.logs[0], grown_at=WALL, pids=[each.pid]) for each in ranks))
    found = silent_jobs(reported.fleet.nodes.values(), 60.0, WALL + 30.0, reported.fleet.progress)
    assert [(each.is_stalled, each.stopped) for each in found] == [(True, ("rank 1 (n1)",))] * listed
    (later,) = silent_jobs(reported.fleet.nodes.values(), 60.0, WALL + 130.0, reported.fleet.progress)
    assert later.all_stopped is (states == "TT")
    assert ("kill -CONT" in later.text) is (states == "TT")


@pytest.mark.parametrize(
    ("cpu_pct", "silent_s", "listed", "stalled"),
    [
        (0.2, 130.0, True, True),
        (95.0, 130.0, True, False),
        (0.2, 60.0, False, False),
    ],
)
def test_a_job_that_sleeps_from_its_start_is_not_healthy(
    cpu_pct: float, silent_s: float, *, listed: bool, stalled: bool
) -> None:
    """Rank 1 sleeps before it connects, rank 0 waits for it, and neither has written a line."""
    reported = Several()
    ranks = [
        structs.replace(rank(number, 900 + number, 2, start=WALL), job="4711", state="S", cpu_pct=cpu_pct)
        for number in range(2)
    ]
    reported.run("n1", *ranks)
    reported.list_files("n1", *(wire.LogFile(each.logs[0], size=0, pids=[each.pid]) for each in ranks))
    found = silent_jobs(reported.fleet.nodes.values(), 60.0, WALL + silent_s, reported.fleet.progress)
    assert [each.is_stalled for each in found] == [stalled] * listed


def test_a_long_silence_of_unknown_pace_is_not_healthy() -> None:
    reported = Several()
    ranks = [structs.replace(rank(n, 900 + n, 2, start=WALL - 9000.0), job="4711") for n in range(2)]
    reported.run("n1", *ranks)
    reported.list_files("n1", *(wire.LogFile(each.logs[0], grown_at=WALL, pids=[each.pid]) for each in ranks))
    found = silent_jobs(reported.fleet.nodes.values(), 60.0, WALL + 3000.0, reported.fleet.progress)
    assert [each.is_stalled for each in found] == [True]


def test_a_silence_that_no_sign_explains_is_reported_on_the_screens_too() -> None:
    """Rank 1 is blocked in a file system; nothing of CPU or GPU is known."""
    reported = Several()
    ranks = [
        structs.replace(rank(n, 900 + n, 2, start=WALL - 500.0), job="4711", state="SD"[n]) for n in range(2)
    ]
    watch = SilentWatch(HangWatch(Thresholds()), 60.0)
    for now, silent_s, warns in (
        (300.0, 50.0, False), (310.0, 3700.0, False), (315.0, 55.0, False),  # a clock jumped
        (320.0, 130.0, False), (330.0, 140.0, True), (340.0, 1.0, False),
    ):  # fmt: skip
        grown = WALL + now - silent_s
        files = [wire.LogFile(each.logs[0], grown_at=grown, pids=[each.pid]) for each in ranks]
        reported.list_files("n1", *files)
        reported.run("n1", *ranks, at=now)
        for step in range(20):
            report(reported.fleet.progress, {"step": step}, 50.0 + step, rank=0, job="4711")
        watch.go(reported.fleet, now, WALL + now)
        firing = [each for each in watch.alerts.values() if each.state == "firing"]
        assert [each.code for each in firing] == ["job.silent"] * warns
        assert all("rank 1 (n1)" in each.text for each in firing)
        assert all(f"since {clock(grown)};" in each.text for each in firing)  # a duration would grow old
