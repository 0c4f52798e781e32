"""Silent jobs: who hangs, for whom the others wait, and who is silent and well."""

from __future__ import annotations

import random

import pytest
from msgspec import structs
from msgspec.structs import replace

from gpuwatch.diagnose.hang.answer import HangAnswer, confirmed
from gpuwatch.diagnose.hang.classifier import verdict
from gpuwatch.diagnose.hang.hang_threshold import PAUSE_WINDOWS
from gpuwatch.diagnose.hang.hang_watch import CHECK_EVERY_S, HOLD_S
from gpuwatch.diagnose.hang.rank_signs import RankSigns
from gpuwatch.diagnose.model.incident import HangCheck
from gpuwatch.diagnose.model.verdict import Confidence, Verdict
from tests.counted_calls import calls_of
from tests.diagnose.hang.silent_story import SPIN, WALL, WORK, Story, aged, ranks_of, usual
from tests.sentences import Sentences


def test_one_idle_rank_is_who_the_others_wait_for(sentences: Sentences) -> None:
    ranks = ranks_of(64, **SPIN)
    ranks[17] = replace(ranks[17], busy_pct=0.0, power_w=120.0, state="D")
    found = verdict("job-1", ranks, 95.0, 1.0, usual(ranks, 95.0))
    assert found is not None
    assert [rank.rank for rank in found.suspects] == [17]
    sentences(found.verdict.sentence)
    assert found.verdict.confidence == "high"
    sentences(found.verdict.evidence)


def test_one_that_still_computes_is_the_suspect() -> None:
    ranks = ranks_of(64, **SPIN)
    ranks[40] = replace(ranks[40], power_w=590.0, tensor_pct=40.0)
    found = verdict("job-1", ranks, 95.0, 1.0, usual(ranks, 95.0))
    assert found is not None
    assert [rank.rank for rank in found.suspects] == [40]
    assert found.verdict.confidence == "medium"


def test_where_all_spin_nobody_is_blamed(sentences: Sentences) -> None:
    ranks = ranks_of(64, **SPIN)
    found = verdict("job-1", ranks, 95.0, 1.0, usual(ranks, 95.0))
    assert found is not None
    assert found.suspects == ()
    sentences(found.verdict.sentence)
    assert found.verdict.confidence == "low"
    assert found.verdict.settle


def test_all_gpus_still_is_the_hosts_doing() -> None:
    ranks = ranks_of(16, **{**SPIN, "busy_pct": 0.0, "power_w": 110.0})
    ranks[3] = replace(ranks[3], state="D")
    found = verdict("job-1", ranks, 95.0, 1.0, {})
    assert found is not None
    assert found.reading == "host"
    assert [rank.rank for rank in found.suspects] == [3]


@pytest.mark.parametrize(
    ("signs", "why"),
    [
        ({"busy_pct": 100.0, "power_w": 590.0, "tensor_pct": 45.0}, "it computes, it only prints seldom"),
        ({"busy_pct": 100.0, "power_w": 380.0, "tensor_pct": None}, "throttled: over half of its power"),
        ({"busy_pct": 60.0, "power_w": 200.0, "tensor_pct": 5.0}, "half busy: data loading"),
        ({"busy_pct": None, "power_w": None, "tensor_pct": None}, "nothing is known"),
    ],
)
def test_no_verdict_without_two_signs(signs: dict[str, float | None], why: str) -> None:
    ranks = ranks_of(64, **{**SPIN, **signs})
    assert verdict("job-1", ranks, 600.0, 1.0, usual(ranks, 600.0)) is None, why


def test_cpu_ranks_are_distinguished_by_what_they_compute(sentences: Sentences) -> None:
    ranks = [replace(rank, gpu=None, uuid=None, cpu_pct=1.0) for rank in ranks_of(4)]
    found = verdict("job-1", ranks, 95.0, 1.0, {})
    assert found is not None
    assert (found.suspects, found.verdict.confidence) == ((), "low")
    ranks[2] = replace(ranks[2], cpu_pct=99.0)
    found = verdict("job-1", ranks, 95.0, 1.0, {})
    assert found is not None
    sentences(found.verdict.sentence)


def test_cpu_ranks_that_all_compute_only_print_seldom() -> None:
    ranks = [replace(rank, gpu=None, uuid=None, cpu_pct=97.0) for rank in ranks_of(4)]
    assert verdict("job-1", ranks, 3600.0, 1.0, {}) is None


def test_a_rank_that_somebody_stopped_is_named_and_a_suspended_job_is_no_hang(sentences: Sentences) -> None:
    ranks = ranks_of(64, **SPIN)
    ranks[17] = replace(ranks[17], state="T")
    found = verdict("job-1", ranks, 95.0, 1.0, {})
    assert found is not None
    sentences(found.verdict.sentence)
    assert found.verdict.confidence == "high"
    assert found.verdict.settle[0].startswith("kill -CONT 4017 on gpu-002")
    suspended = [replace(rank, state="T") for rank in ranks]
    assert verdict("job-1", suspended, 7200.0, 1.0, usual(ranks, 95.0)) is None


@pytest.mark.parametrize("dead", [True, False])
def test_a_rank_whose_process_has_ended_is_named_and_a_job_that_has_ended_is_no_hang(
    dead: bool, sentences: Sentences
) -> None:
    """Nobody has collected it yet (Z), or it is no longer listed."""
    ranks = ranks_of(64, **SPIN)
    lost, left = replace(ranks[17], state="Z"), [rank for rank in ranks if rank.rank != 17]
    found = verdict("job-1", [lost, *left] if dead else left, 95.0, 1.0, {}, [] if dead else [lost])
    assert found is not None
    sentences(found.verdict.sentence)
    assert (found.verdict.confidence, found.suspects) == ("high", (lost,))
    assert verdict("job-1", left[:1], 95.0, 1.0, {}, ranks[1:]) is None, "the last one saves the model"
    assert verdict("job-1", [replace(rank, state="Z") for rank in ranks], 95.0, 1.0, {}) is None


def test_a_hang_is_reported_within_30_s_of_its_window_and_ends_with_the_next_step() -> None:
    story = Story()
    story.train(64, 60)
    ranks = ranks_of(64, **SPIN)
    ranks[17] = replace(ranks[17], busy_pct=0.0)
    story.silent(ranks, 58)
    assert not story.reported
    story.silent(ranks, 90)
    (alert,) = story.watch.alerts.values()
    assert (alert.code, alert.rank, alert.node, alert.gpu) == ("job.hang", 17, "gpu-002", 1)
    assert alert.role == "first"
    story.train(64, 4)
    assert not story.reported


def test_busy_gpus_that_tell_nothing_more_are_reported_by_a_long_silence_alone(sentences: Sentences) -> None:
    """A100s do not tell their tensor work, and what they draw in training is not known to who comes late."""
    blind = {**SPIN, "power_w": 95.0, "tensor_pct": None}
    for silent_s, reported in ((400.0, 0), (2400.0, 1)):
        story = Story()
        for look in range(15):
            quiet = aged(tuple(ranks_of(64, **blind)), silent_s + look * CHECK_EVERY_S, steps=True)
            story.watch.see(
                {"job-1": quiet}, lambda _ranks, _quiet_s: {}, story.now + look * CHECK_EVERY_S, WALL
            )
        assert len(story.reported) == reported
    sentences(story.reported[0])
    (alert,) = story.watch.alerts.values()
    assert (alert.severity, alert.fields["confidence"]) == ("error", "low")
    ranks = ranks_of(64, **blind)
    ranks[17] = replace(ranks[17], busy_pct=0.0)
    found = verdict("job-1", ranks, 2400.0, None, {})
    assert found is not None
    assert [rank.rank for rank in found.suspects] == [17]


@pytest.mark.parametrize(
    ("power_w", "idle", "silent_s"),
    [(95.0, None, 150.0), (95.0, 17, 100.0), (400.0, 17, 100.0)],
    ids=["far under the limit", "one idle", "one idle, the rest at any power"],
)
def test_a_job_that_hangs_soon_after_we_came_is_reported_by_its_peers_and_limits(
    power_w: float, idle: int | None, silent_s: float
) -> None:
    """Its usual gap is known after 20 s, what its GPUs draw in training is not, nor their tensor work."""
    blind = {"tensor_pct": None, "power_limit_w": 700.0}
    story = Story(usual=lambda _ranks, _quiet_s: {})
    story.train(64, 20, **blind)
    ranks = ranks_of(64, **{**SPIN, **blind, "power_w": power_w})
    if idle is not None:
        ranks[idle] = replace(ranks[idle], busy_pct=0.0, power_w=90.0)
    story.silent(ranks, 55)
    assert not story.reported
    story.silent(ranks, silent_s)
    (alert,) = story.watch.alerts.values()
    assert (alert.state, alert.rank) == ("firing", idle)


def test_the_one_gpu_that_draws_twice_what_the_others_do_works_while_they_wait() -> None:
    ranks = ranks_of(8, **{**SPIN, "tensor_pct": None, "power_limit_w": 400.0, "power_w": 160.0})
    ranks[5] = replace(ranks[5], power_w=380.0)
    found = verdict("job-1", ranks, 95.0, 1.0, {})
    assert found is not None
    assert [rank.rank for rank in found.suspects] == [5]


def asked(culprits: tuple[int, ...], *, settles: bool, confidence: Confidence = "high") -> HangAnswer:
    sentence = (
        f"rank {culprits[0]} (gpu-000 GPU 3) is in next_batch (data.py:9), while the rest is in barrier"
    )
    return HangAnswer(HangCheck(WALL, Verdict("stacks", True, sentence, culprits, confidence)), settles)


def test_an_answer_tells_before_silence_alone_would_and_names_the_rank(sentences: Sentences) -> None:
    story = Story()
    story.train(8, 60, busy_pct=0.0)
    still = ranks_of(8, **{**SPIN, "busy_pct": 0.0})
    story.silent(still, 80)
    assert story.watch.suspected == {"job-1"}
    assert not story.reported, "a checkpoint of all ranks may take so long"
    story.watch.answer("job-1", asked((3,), settles=True))
    story.tick(aged(tuple(still), 82, steps=True))
    (alert,) = story.watch.alerts.values()
    assert (alert.state, alert.rank) == ("firing", 3)
    sentences(alert.text)
    story.train(8, 10)
    assert story.watch.suspected == set()


def test_a_look_between_two_states_does_not_make_a_second_hang_of_one() -> None:
    """A hang is asked about once: a GPU that flickers for one look, and no line, is the same silence."""
    story = Story()
    story.train(8, 60)
    low = ranks_of(8, **SPIN)
    story.silent(low, 80)
    assert story.watch.suspected == {"job-1"}
    story.tick(aged(tuple(ranks_of(8, **{**SPIN, "busy_pct": 60.0})), 82, steps=True))
    assert story.watch.suspected == {"job-1"}


def test_an_answer_that_may_be_a_pause_only_refines_what_is_reported_in_its_time() -> None:
    story = Story()
    story.train(8, 60, busy_pct=0.0)
    still = ranks_of(8, **{**SPIN, "busy_pct": 0.0})
    story.silent(still, 80)
    story.watch.answer("job-1", asked((3,), settles=False))
    for tick in range(41, 160):
        assert not story.reported or tick * CHECK_EVERY_S > PAUSE_WINDOWS * 60
        story.tick(aged(tuple(still), tick * CHECK_EVERY_S, steps=True))
    assert [alert.rank for alert in story.watch.alerts.values()] == [3]


def test_signs_from_outside_that_are_surer_than_the_answer_are_kept() -> None:
    story = Story()
    story.train(64, 60)
    ranks = ranks_of(64, **SPIN)
    ranks[17] = replace(ranks[17], busy_pct=0.0)
    story.silent(ranks, 90)
    story.watch.answer("job-1", asked((3,), settles=False, confidence="low"))
    story.tick(aged(tuple(ranks), 92, steps=True))
    assert [alert.rank for alert in story.watch.alerts.values()] == [17]


def test_a_vanished_rank_is_the_one_that_the_others_wait_for(sentences: Sentences) -> None:
    story = Story()
    story.train(8, 60)
    left = [rank for rank in ranks_of(8, **SPIN) if rank.rank != 5]
    story.silent(left, 90)
    sentences(story.reported)
    (alert,) = story.watch.alerts.values()
    assert alert.rank == 5
    story.train(4, 60)
    story.silent(ranks_of(4, **SPIN), 90)
    sentences(story.reported[0])


def test_a_job_that_was_silent_before_we_came_is_reported_soon() -> None:
    """It has stopped for 40 minutes: nobody waits another window, but one moment is too short a look."""
    story = Story()
    ranks = ranks_of(64, **SPIN)
    ranks[17] = replace(ranks[17], busy_pct=0.0, power_w=120.0)
    looks = 0
    while not story.reported:
        story.tick(aged(tuple(ranks), 2400.0 + looks * CHECK_EVERY_S, steps=True))
        looks += 1
    assert HOLD_S < looks * CHECK_EVERY_S <= 30
    (alert,) = story.watch.alerts.values()
    assert alert.rank == 17
    assert "for 40 min" in alert.proof[0].text


def saves(busy: float = 92.0) -> list[RankSigns]:
    """Rank 0 writes the model, the others wait for it in a barrier."""
    ranks = ranks_of(8, **SPIN)
    ranks[0] = replace(ranks[0], busy_pct=0.0, power_w=120.0, cpu_pct=busy)
    return ranks


def test_the_rank_that_saves_for_all_is_given_five_windows(sentences: Sentences) -> None:
    story = Story()
    story.train(8, 60)
    story.silent(saves(), 280)
    assert not story.reported
    story.silent(saves(), 430)
    sentences(story.reported)


def test_a_pause_that_ended_by_itself_may_come_again() -> None:
    """An evaluation on little power: reported once, and again only when it lasts longer than ever."""
    story = Story()
    story.train(8, 60)
    low = ranks_of(8, **SPIN)
    story.silent(low, 180)
    assert story.reported
    story.train(8, 60)
    story.silent(low, 240)
    assert not story.reported
    story.silent(saves(busy=2.0), 90)
    assert story.reported, "but another rank that all wait for is news"
    story.train(8, 60)
    story.silent(low, 400)
    assert story.reported


def test_a_job_whose_logging_rank_is_unreachable_is_not_silent() -> None:
    """Only rank 0 writes, and the link to its node is lost for ten minutes; the others train on."""
    story = Story()
    story.train(16, 60)
    others = ranks_of(
        16, **{**WORK, "power_w": 250.0, "tensor_pct": 0.5, "wrote_s": 9000.0, "stepped_s": None}
    )
    for tick in range(300):
        lost = replace(others[0], reachable=False, busy_pct=None, wrote_s=2.0 * tick, stepped_s=2.0 * tick)
        story.tick([lost, *others[1:]])
    back = replace(others[0], wrote_s=600.0, stepped_s=600.0)
    for _ in range(25):
        story.tick([back, *others[1:]])  # its log has not been read yet
        assert not story.reported
    for tick in range(45):
        back = replace(others[0], wrote_s=650.0 + tick, stepped_s=650.0 + tick)
        story.tick([back, *others[1:]])
    assert story.reported


def test_a_server_that_nobody_asks_anything_does_not_hang() -> None:
    story = Story()
    story.train(8, 300, stepped_s=None)
    story.silent(ranks_of(8, **SPIN), 3600, steps=False)
    assert not story.reported


def test_a_job_of_long_steps_is_given_five_of_them() -> None:
    story = Story()
    for _ in range(10):
        story.silent(ranks_of(64, **WORK), 40)
    story.silent(ranks_of(64, **SPIN), 190)
    assert not story.reported
    story.silent(ranks_of(64, **SPIN), 240)
    assert story.reported


MAX_S = {
    "step": 30.0,
    "reduce": 10.0,
    "checkpoint": 280.0,
    "evaluation": 600.0,
    "save": 280.0,
    "compile": 900.0,
    "suspended": 3600.0,
}


@pytest.mark.parametrize("days", [1, pytest.param(7, marks=pytest.mark.long)])
def test_healthy_days_give_no_alarm(days: int) -> None:
    """Steps of 2 to 30 s, evaluations, checkpoints of all and of rank 0, compiling, dips: a look each 2 s."""
    dice = random.Random(7)
    story = Story()
    kinds = {
        "step": ranks_of(2, **WORK),
        "reduce": ranks_of(2, **{**WORK, "power_w": 250.0, "tensor_pct": 0.5}),
        "checkpoint": ranks_of(2, **{**WORK, "busy_pct": 0.0, "power_w": 120.0, "tensor_pct": 0.0}),
        "evaluation": ranks_of(2, **{**WORK, "busy_pct": 97.0, "power_w": 500.0}),
        "save": saves()[:4],
        "compile": ranks_of(2, **{**WORK, "busy_pct": 0.0, "power_w": 90.0, "cpu_pct": 100.0}),
        "suspended": [replace(rank, state="T") for rank in ranks_of(2, **SPIN)],
    }
    alarms, end = 0, story.now + days * 86_400
    while story.now < end:
        kind = dice.choices(list(kinds), (400, 40, 2, 2, 2, 1, 1))[0]
        longest = MAX_S[kind]
        story.silent(kinds[kind], dice.uniform(CHECK_EVERY_S, longest))
        alarms += len(story.reported)
    assert alarms == 0


def test_a_verdict_over_1000_ranks_is_cheap() -> None:
    def cost(count: int) -> int:
        ranks = ranks_of(count, **SPIN)
        ranks[17] = replace(ranks[17], busy_pct=0.0)
        watts = usual(ranks, 95.0)
        assert verdict("job-1", ranks, 95.0, 1.0, watts) is not None
        return calls_of(lambda: verdict("job-1", ranks, 95.0, 1.0, watts))

    assert cost(1000) < min(15 * cost(100), 100_000)


def test_a_rank_that_was_gone_before_we_came_is_who_the_others_wait_for(sentences: Sentences) -> None:
    ranks = ranks_of(4, **SPIN)
    ranks[1] = RankSigns(1, "gpu-000", "job-1", 0, state="Z")
    found = verdict("job-1", ranks, 95.0, None, {})
    assert found is not None
    assert [rank.rank for rank in found.suspects] == [1]
    sentences(found.verdict.evidence)


@pytest.mark.parametrize(
    ("signs", "states"), [({}, True), ({"cpu_pct": 97.0}, False), ({"busy_pct": 90.0}, False)]
)
def test_the_same_answer_twice_tells_unless_the_named_rank_works(
    signs: dict[str, float], states: bool
) -> None:
    first = replace(asked((3,), settles=False, confidence="low"), repeatable=True)
    again = replace(first, hang_check=structs.replace(first.hang_check, at=WALL + 20))
    answer = confirmed(first, again)
    assert (answer.repeated, answer.hang_check.verdict.confidence) == (True, "medium")
    story = Story()
    story.train(8, 60, busy_pct=0.0)
    still = ranks_of(8, **{**SPIN, "busy_pct": 0.0, "power_w": 90.0})
    still[3] = replace(still[3], **signs)
    story.silent(still, 80)
    assert not story.reported
    story.watch.answer("job-1", answer)
    story.tick(aged(tuple(still), 82, steps=True))
    assert bool(story.reported) == states


def test_an_answer_that_changed_confirms_nothing() -> None:
    first = replace(asked((3,), settles=False, confidence="low"), repeatable=True)
    assert not confirmed(first, replace(asked((4,), settles=False), repeatable=True)).repeated
    pausing = replace(first, repeatable=False)
    assert not confirmed(first, pausing).repeated
