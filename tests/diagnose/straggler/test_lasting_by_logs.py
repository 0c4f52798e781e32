"""A session that begins while a rank has been slow for minutes: the logs' own times tell it at once."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.straggler.own_time import lasting_by_logs
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL, rank

NOW = 600.0


def begun_late(slow_since: float, every_s: float = 1.0) -> Watched:
    """Four ranks log a step each `every_s`; rank 3 has loaded slowly since then; NOW the session begins."""
    reported = Watched()
    ranks = [rank(number, 100 + number, world=4, start=WALL, job="4711") for number in range(4)]
    reported.run("n1", *ranks, at=NOW)
    times = [NOW - every_s * back for back in range(60, 0, -1)]
    for number, each in enumerate(ranks):
        reported.list_files("n1", *(wire.LogFile(one.logs[0], pids=[one.pid]) for one in ranks))
        timers = [
            wire.PastTimers(
                WALL + at, {"data": 0.6 if number == 3 and at > slow_since else 0.1, "forward": 0.3}
            )
            for at in times
        ]
        steps = [wire.PastStep(float(at), WALL + at, 2.5, step_time_s=1.0) for at in times]
        past = wire.Progress(
            t=WALL + NOW, seq=5, file=each.logs[0], offset=0, at=WALL + times[-1], timed=True, backlog=True,
            dialect="progress.common", rank=number, past=steps, past_timers=timers,
        )  # fmt: skip
        step = wire.Progress(
            t=WALL + NOW, seq=6, file=each.logs[0], offset=9, at=WALL + NOW, dialect="progress.common",
            rank=number, fields={"step": NOW}, phases_s={"data": 0.6 if number == 3 else 0.1, "forward": 0.3},
        )  # fmt: skip
        reported.report("n1", past, step, at=NOW)
    return reported


@pytest.mark.parametrize(("since", "named"), [(NOW - 55, [3]), (NOW - 10, []), (NOW + 1, [])])
def test_what_lasted_by_the_lines_times_is_named_at_the_first_look(since: float, named: list[int]) -> None:
    reported = begun_late(since)
    reported.book.judge_now()
    for second in range(3):
        reported.look(NOW + second)
    found = [each for each in reported.book.alerts.values() if each.code == "slower_than_peers"]
    assert [each.rank for each in found] == named


def test_a_few_lines_of_before_the_session_show_nothing() -> None:
    reported = begun_late(NOW - 55)
    for writer in reported.fleet.progress.writers.values():
        writer.past_timings, writer.past = writer.past_timings[-1:], []
    assert lasting_by_logs(reported.fleet, NOW, 110.0, 45.0) == set()


def test_slow_steps_need_several_of_them_in_each_half() -> None:
    assert {each[1] for each in lasting_by_logs(begun_late(NOW - 20, 10.0).fleet, NOW, 110.0, 45.0)} == set()
    assert {each[1] for each in lasting_by_logs(begun_late(NOW - 200, 10.0).fleet, NOW, 110.0, 45.0)} == {3}
