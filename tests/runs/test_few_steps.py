"""Ranks that stop after few logged steps, and those that only log less: judged by their peers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.ended_logs import report, step_line, steps


def ranks(folder: Path, ends: list[int], total: int = 600) -> None:
    for rank, last in enumerate(ends):
        (folder / f"rank_{rank}.log").write_text(steps(last, total))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("last", [1, 2, 7, 19, 40])
def test_one_rank_that_stops_early_is_named_whatever_it_logged_before(tmp_path: Path, last: int) -> None:
    ranks(tmp_path, [600] * 5 + [last, 600, 600])
    end = report(tmp_path).end
    assert (end.state, end.behind) == ("stopped", (5,))


def test_one_rank_far_behind_others_that_end_near_each_other_is_named(tmp_path: Path) -> None:
    ranks(tmp_path, [300, 297, 299, 2, 298, 300])
    end = report(tmp_path).end
    assert (end.state, end.behind) == ("stopped", (3,))


def test_a_short_run_counts_by_its_share(tmp_path: Path) -> None:
    ranks(tmp_path, [12, 12, 3, 12], total=12)
    assert report(tmp_path).end.behind == (2,)


@pytest.mark.parametrize(
    "ends",
    [
        [600, 2, 2, 2],  # rank 0 logs on, the others log their first steps alone
        [600, 600, 2, 2],
        [600, 2],
        [600, 596, 600, 600],
    ],
)
def test_ranks_that_log_less_are_not_behind(tmp_path: Path, ends: list[int]) -> None:
    ranks(tmp_path, ends)
    assert (report(tmp_path).end.state, report(tmp_path).has_problems) == ("finished", False)


def test_a_rank_that_logs_now_and_then_is_not_behind(tmp_path: Path) -> None:
    ranks(tmp_path, [600] * 4)
    (tmp_path / "rank_3.log").write_text("".join(step_line(step, 600, 2.0) for step in range(100, 600, 100)))
    assert report(tmp_path).end.state == "finished"


def test_a_rank_that_leaves_with_a_word_is_not_behind(tmp_path: Path) -> None:
    ranks(tmp_path, [600] * 4)
    (tmp_path / "rank_3.log").write_text(steps(5, 600) + "rank 3 has no more data, leaving\n")
    assert report(tmp_path).end.state == "finished"


def test_an_error_is_not_over_by_a_line_about_the_end_where_a_rank_stopped(tmp_path: Path) -> None:
    ranks(tmp_path, [600, 600, 300, 600])
    (tmp_path / "launcher.log").write_text(
        "2026-03-04 00:01:42Z ERROR CUDA out of memory. Tried to allocate 2 GiB\n"
        "2026-03-04 00:10:01Z INFO training finished\n"
    )
    found = report(tmp_path)
    alerts = [*found.outside, *(alert for each in found.incidents for alert in each.alerts)]
    assert found.end.state == "stopped"
    assert [alert.recovered for alert in alerts if alert.code == "oom.cuda"] == [False]
    (tmp_path / "rank_2.log").write_text(steps(600, 600))
    (alert,) = report(tmp_path).outside
    assert (report(tmp_path).end.state, alert.recovered) == ("finished", True)
