"""Hangs of jobs whose logs grow: a thread of a profiler or a monitor logs a line every few seconds."""

from __future__ import annotations

from msgspec import structs
from msgspec.structs import replace

from gpuwatch import wire
from gpuwatch.diagnose.hang.hang_watch import CHECK_EVERY_S
from gpuwatch.diagnose.hang.rank_signs import RankSigns
from gpuwatch.diagnose.hang.silence.silence_snapshot import silent_jobs
from tests.diagnose.hang.silent_story import SPIN, WORK, Story, ranks_of
from tests.fleet.jobs.two_jobs import WALL, Several, rank

LINE_S = 10
"""Seconds between two lines of the thread."""


def lines_without_steps(
    story: Story, ranks: list[RankSigns], seconds: float, since_s: float = 0.0
) -> float | None:
    """Feed ranks that log lines and no step; return after how many seconds a hang was reported."""
    for tick in range(1, int(seconds / CHECK_EVERY_S) + 1):
        quiet = since_s + tick * CHECK_EVERY_S
        story.tick([replace(each, stepped_s=quiet, wrote_s=quiet % LINE_S) for each in ranks])
        if story.reported:
            return quiet
    return None


def test_lines_of_a_thread_do_not_hide_a_stopped_rank() -> None:
    story = Story()
    story.train(8, 60)
    ranks = ranks_of(8, **SPIN)
    ranks[5] = replace(ranks[5], state="T")
    after = lines_without_steps(story, ranks, 60)
    assert after is not None
    assert after <= 45
    assert [(alert.rank, alert.state) for alert in story.watch.alerts.values()] == [(5, "firing")]
    story.train(8, 10)
    assert not story.reported


def test_lines_of_a_thread_delay_the_report_of_a_hang_and_do_not_prevent_it() -> None:
    story = Story()
    story.train(64, 60)
    ranks = ranks_of(64, **SPIN)
    ranks[17] = replace(ranks[17], busy_pct=0.0)
    after = lines_without_steps(story, ranks, 600)
    assert after is not None
    assert 180 < after < 300
    assert [alert.rank for alert in story.watch.alerts.values()] == [17]


def test_an_evaluation_that_logs_lines_is_no_hang() -> None:
    """Nor are lines without steps after a pause that was half as long and ended by itself."""
    story = Story()
    story.train(64, 60)
    assert lines_without_steps(story, ranks_of(64, **WORK), 900) is None
    story.train(64, 60)
    assert lines_without_steps(story, ranks_of(64, **SPIN), 900) is None


def test_a_job_of_unknown_pace_is_judged_by_its_lines() -> None:
    story = Story()
    assert lines_without_steps(story, ranks_of(64, **SPIN), 900, since_s=900.0) is None


def test_a_report_names_a_stopped_rank_although_the_others_log_lines() -> None:
    reported = Several()
    ranks = [
        structs.replace(rank(number, 900 + number, 2, start=WALL - 500.0), job="4711", state=state)
        for number, state in enumerate("RT")
    ]
    reported.run("n1", *ranks)
    files = [wire.LogFile(each.logs[0], grown_at=WALL, pids=[each.pid]) for each in ranks]
    reported.list_files("n1", structs.replace(files[0], grown_at=WALL + 58.0), files[1])
    (found,) = silent_jobs(reported.fleet.nodes.values(), 60.0, WALL + 60.0, reported.fleet.progress)
    assert (found.is_stalled, found.stopped, found.seconds) == (True, ("rank 1 (n1)",), 60.0)
