"""Ranks that tell their own times: who is slow in them, and who is not."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.straggler.own_time import slow_ranks, unlike_by_own_times
from gpuwatch.diagnose.straggler.stepping_jobs import paces
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.wire import Process, Ranks
from tests.fleet.logs.reporting import report
from tests.sentences import Sentences

EQUAL = {"step": 2.0, "forward": 0.5, "backward": 1.0, "data": 0.02, "allreduce": 0.2}


def stand_out(odd: dict[int, dict[str, float]], ranks: int = 16) -> list[tuple[int, str]]:
    times = {rank: {**EQUAL, **odd.get(rank, {})} for rank in range(ranks)}
    return [(each.rank, each.figure) for each in slow_ranks(times, 110.0)]


def test_who_computes_longer_waits_less_and_both_are_seen(sentences: Sentences) -> None:
    """Document 001, line 164."""
    odd = {rank: {"allreduce": 0.6} for rank in range(16)} | {5: {"forward": 0.9, "allreduce": 0.01}}
    sentences(stand_out(odd))
    times = {rank: {**EQUAL, **odd[rank]} for rank in odd}
    last, longer = slow_ranks(times, 110.0)
    sentences(longer.evidence)
    assert longer.cost == pytest.approx(0.2)
    sentences(last.what)


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({5: {"data": 0.1}}, "five times as long, and no part of the step worth a word"),
        ({5: {"forward": 0.54}}, "within 10 %"),
        ({rank: {"forward": 0.9} for rank in range(8)}, "one half is another stage"),
        ({rank: {"allreduce": 0.01} for rank in (3, 5)}, "two that hardly wait: nobody is the last"),
        ({5: {"allreduce": 0.9}}, "who waits longest is no straggler"),
    ],
)
def test_ranks_that_are_not_slow(odd: dict[int, dict[str, float]], why: str) -> None:
    assert stand_out(odd) == [], why


def test_of_three_ranks_nobody_is_the_odd_one() -> None:
    assert stand_out({1: {"forward": 0.9}}, ranks=3) == []


def test_one_reported_hiccup_is_none_and_a_silent_rank_says_nothing_about_now() -> None:
    fleet = Fleet(Plan((NodeSpec("n1"),)))

    def step(number: int, slow: float) -> list[int]:
        now = 10.0 * number
        for rank in range(4):
            took = slow if rank == 2 else 1.0
            report(
                fleet.progress,
                {"step": number, "step_time_s": took},
                now,
                rank=rank,
                job="j",
                file=f"/{rank}",
            )
        return [each.rank for _, each in unlike_by_own_times(fleet, now, 110.0)]

    assert [step(number, 5.0 if number == 3 else 1.0) for number in range(1, 6)] == [[]] * 5
    assert [step(number, 1.5) for number in range(6, 9)][-1] == [2]
    assert list(unlike_by_own_times(fleet, 200.0, 110.0)) == []


def test_the_words_of_a_log_that_names_no_job_are_of_the_only_one_on_its_node() -> None:
    fleet = Fleet(Plan((NodeSpec("n1"),)))
    report(fleet.progress, {"step": 1.0}, 10.0, rank=0)
    ranks = [Process(pid=1, name="python", rank=0, job="j"), Process(pid=2, name="sh")]
    fleet.apply(Arrival("n1", 10.0, Ranks(t=0.0, seq=1, processes=ranks)))
    assert set(paces(fleet, 12.0)) == {"j"}
    other = [*ranks, Process(pid=3, name="python", rank=0, job="k")]
    fleet.apply(Arrival("n1", 11.0, Ranks(t=0.0, seq=2, processes=other)))
    assert paces(fleet, 12.0) == {}


def test_a_job_pauses_when_no_step_was_reported_for_one_and_a_half_usual_gaps() -> None:
    fleet = Fleet(Plan((NodeSpec("n1"),)))
    for step in range(5):
        report(fleet.progress, {"step": step}, 40.0 * step, rank=0, job="j")
    assert paces(fleet, 160.0 + 59.0)["j"].limit_s == 60.0
    assert paces(fleet, 160.0 + 61.0) == {}
