"""What a run's numbers say: losses, gradients, step times."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest

from gpuwatch.diagnose.training.first_nan import first_nans
from gpuwatch.diagnose.training.numerics import numerics
from gpuwatch.diagnose.training.throughput import pace, slower
from gpuwatch.diagnose.training.training_watch import MAX_JOBS, TrainingWatch
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.logged_steps import LoggedStep
from gpuwatch.fleet.logs.progress import RankProgress, Value
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from tests.fleet.logs.reporting import frame, report
from tests.sentences import Sentences

FIRST = (98, 98, 97, 98)
"""By rank, the step since which the loss is NaN."""


def writer(
    count: int,
    loss: Callable[[int], float | None] = lambda _: None,
    norm: Callable[[int], float | None] = lambda _: None,
    took: Callable[[int], float | None] = lambda _: 1.0,
    **values: float,
) -> RankProgress:
    """A run of so many reported steps, one a second."""
    reported = RankProgress("gpu-001", "/logs/rank_0.log", rank=0, job="4711")
    for step in range(1, count + 1):
        reported.steps.append(LoggedStep(step, float(step), took(step), loss(step), norm(step)))
    reported.values = {name: Value(value, float(count)) for name, value in {"step": count, **values}.items()}
    reported.stepped_at = float(count)
    return reported


def noisy(level: float, spread: float) -> Callable[[int], float]:
    dice = random.Random(3)
    return lambda _step: level * (1 + spread * dice.uniform(-1, 1))


def nan_from(first: int) -> Callable[[int], float]:
    return lambda step: math.nan if step >= first else 2.0


def codes(reported: RankProgress, busy: tuple[float, ...] = ()) -> set[str]:
    return {sign.code for sign in (*numerics(reported), *pace(reported, busy))}


def test_the_first_nan_is_looked_for_in_what_the_log_held_before(sentences: Sentences) -> None:
    reported = writer(20, loss=lambda _step: math.nan)
    reported.steps = deque(replace(step, step=step.step + 100) for step in reported.steps)
    reported.past = [LoggedStep(each, -math.inf, None, 2.0 if each < 60 else math.nan) for each in range(100)]
    sign = first_nans([reported])["4711"].sign
    assert sign.step == 60
    sentences(sign.text)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_names_its_first_step(bad: float, sentences: Sentences) -> None:
    reported = writer(100, loss=lambda step: bad if step >= 97 else 2.0)
    found = first_nans([reported])["4711"]
    assert (found.sign.code, found.sign.severity) == ("num.nan_loss", "critical")
    sentences(found.sign.text)
    assert found.alone
    assert codes(reported) == set()


def test_the_rank_whose_loss_was_no_number_first_is_named_and_not_who_spoke_last(
    sentences: Sentences,
) -> None:
    ranks = [writer(100, loss=nan_from(first)) for first in FIRST]
    for rank, each in enumerate(ranks):
        each.rank, each.node = rank, f"gpu-00{rank}"
    found = first_nans(ranks)["4711"]
    assert (found.writer.rank, found.alone) == (2, True)
    sentences(found.sign.text)


def test_a_loss_that_is_no_number_on_all_ranks_at_once_leads_to_none_of_them(sentences: Sentences) -> None:
    ranks = [writer(100, loss=nan_from(98)) for _ in range(4)]
    for rank, each in enumerate(ranks):
        each.rank = rank
    found = first_nans(ranks)["4711"]
    assert not found.alone
    sentences(found.sign.text)


def test_between_reported_steps_nobody_is_surely_first(sentences: Sentences) -> None:
    """Each rank's log is reported once a second, at its own steps: 96 on one may be after 97 on the other."""
    ranks = [writer(100, loss=nan_from(95)) for _ in range(2)]
    for rank, each in enumerate(ranks):
        each.rank = rank
        reported = [step for step in each.steps if step.step % 10 == 6 + rank]
        each.steps.clear()
        each.steps.extend(reported)
    found = first_nans(ranks)["4711"]
    assert not found.alone
    sentences(found.sign.text)


def test_a_loss_that_became_a_number_again_is_fine() -> None:
    assert first_nans([writer(100, loss=lambda step: math.inf if step < 9 else 2.0)]) == {}


def test_an_earlier_step_that_is_read_later_takes_the_alerts_place(sentences: Sentences) -> None:
    """The slow node's log names the rank that it began with; the alert is the same one."""
    fleet = Fleet(Plan((NodeSpec("gpu-000"), NodeSpec("gpu-001"))))
    watch = TrainingWatch(Thresholds())
    report(fleet.progress, {"step": 12, "loss": "2.0"}, 99.0, rank=0, job="4711")
    report(fleet.progress, {"step": 13, "loss": "nan"}, 100.0, rank=0, job="4711")
    assert watch.go(fleet, 101.0, 1e9)
    report(fleet.progress, {"step": 11, "loss": "2.0"}, 102.0, rank=2, job="4711")
    report(fleet.progress, {"step": 12, "loss": "nan"}, 103.0, rank=2, job="4711")
    assert watch.go(fleet, 104.0, 1e9)
    (alert,) = watch.alerts.values()
    assert (alert.rank, alert.count) == (2, 1)
    sentences(alert.text)
    assert not watch.go(fleet, 107.0, 1e9)


@pytest.mark.parametrize(("others", "named"), [("falls", 1), ("rises", None), ("silent", None)])
def test_a_rank_whose_loss_alone_rises_is_named(others: str, named: int | None) -> None:
    """Averaged losses are alike on all ranks: the rank that logs them is not the cause."""
    fleet = Fleet(Plan((NodeSpec("gpu-000"), NodeSpec("gpu-001"))))
    watch = TrainingWatch(Thresholds())
    for step in range(1, 101):
        risen = 3.0 if step < 60 else 0.3 * step
        report(fleet.progress, {"step": step, "loss": f"{risen}"}, 100.0 + step, rank=1, job="4711")
        if others != "silent":
            loss = risen if others == "rises" else 3.0
            report(fleet.progress, {"step": step, "loss": f"{loss}"}, 99.9 + step, rank=0, job="4711")
    watch.go(fleet, 201.0, 1e9)
    found = {alert.code: alert.rank for alert in watch.alerts.values()}
    assert found["num.loss_rising"] == named


@pytest.mark.parametrize(("others", "named"), [("rises", (1, None)), ("falls", (None, 1))])
def test_the_rank_of_a_rising_loss_is_judged_again_when_logs_of_others_arrive(
    others: str, named: tuple[int | None, int | None]
) -> None:
    """They show the same rise some steps later, or they were not known at first."""
    fleet = Fleet(Plan((NodeSpec("gpu-000"), NodeSpec("gpu-001"))))
    watch, found = TrainingWatch(Thresholds()), []
    for last, first in ((100, 1), (140, 101)):
        for step in range(first, last + 1):
            report(
                fleet.progress,
                {"step": step, "loss": f"{3.0 if step < 60 else 0.3 * step}"},
                100.0 + step,
                rank=1,
                job="4711",
            )
            if others == "rises" or last == 140:
                loss = 3.0 if step < 105 or others == "falls" else 0.3 * step
                report(fleet.progress, {"step": step, "loss": f"{loss}"}, 99.9 + step, rank=0, job="4711")
        watch.go(fleet, 101.0 + last, 1e9)
        found += [alert.rank for alert in watch.alerts.values() if alert.code == "num.loss_rising"]
    assert tuple(found) == named


def test_a_spike_is_reported_against_the_running_median_and_not_for_one_point(sentences: Sentences) -> None:
    usual = noisy(2.4, 0.03)
    assert codes(writer(200, loss=lambda step: 9.0 if step == 200 else usual(step))) == set()
    spiked = writer(200, loss=lambda step: 9.0 if step >= 199 else usual(step))
    (sign,) = numerics(spiked)
    assert sign.code == "num.loss_spike"
    sentences(sign.text)


@pytest.mark.parametrize(
    ("steps", "before", "hold_s"), [(100, 0, 0.0), (10, 90, 0.0), (1, 90, 0.0), (10, 0, 60.0)]
)
def test_steps_that_were_slow_from_the_start_are_reported_by_a_limit(
    steps: int, before: int, hold_s: float
) -> None:
    """At once, if the log shows it for a minute, though gpuwatch was started late."""
    reported = writer(steps)
    reported.steps = deque(
        replace(s, step=s.step + before, at=s.at + before, took_s=s.took_s if steps > 1 else None)
        for s in reported.steps
    )
    reported.past = [LoggedStep(step, float(step), None) for step in range(1, before + 1, 2)]
    (sign,) = [each for each in pace(reported, (), 0.5) if each.code == "train.slow"]
    assert sign.hold_s == hold_s
    assert not list(pace(reported, (), 1.5))


def test_a_restart_from_the_beginning_is_no_spike() -> None:
    reported = writer(600, loss=lambda step: 2.0 + 9 * math.exp(-step / 100) + step % 7 / 50)
    first = list(reported.steps)
    reported.steps.extend(first[:40])
    assert codes(reported) == set()


MADE_SO: dict[str, Callable[[random.Random, int], float]] = {
    "masked batches": lambda dice, _: 0.0 if dice.random() < 0.7 else dice.gauss(1.0, 0.2),
    "rounded to four places": lambda dice, _: round(abs(dice.gauss(0, 1e-4)), 4),
    "rewards around zero": lambda dice, step: -0.02 + dice.gauss(0, 0.02) + (step % 17 < 2) * 0.3,
    "a loss far below zero": lambda dice, step: -10.0 + dice.gauss(0, 1) + (step % 17 < 2) * 8,
    "diffusion": lambda dice, _: dice.lognormvariate(-2.5, 1.0),
    "small batches": lambda dice, _: dice.lognormvariate(0.3, 0.5),
    "a task every tenth step": lambda dice, _: (5.0 if dice.random() < 0.1 else 0.5) * dice.gauss(1, 0.05),
}


@pytest.mark.parametrize("kind", MADE_SO)
def test_losses_that_jump_by_their_nature_are_no_spikes(kind: str) -> None:
    dice = random.Random(5)
    losses = [MADE_SO[kind](dice, step) for step in range(2001)]
    for steps in range(300, 2000, 41):
        assert codes(writer(steps, loss=losses.__getitem__)) - {"num.plateau"} == set(), steps


def test_tasks_that_take_turns_are_reported_at_most_a_few_times() -> None:
    def of_task(step: int) -> float:
        return (5.0 if step % 100 < 10 else 0.5) + step % 7 / 50

    reported = [
        steps for steps in range(31, 1900, 10) if "num.loss_spike" in codes(writer(steps, loss=of_task))
    ]
    assert max(reported, default=0) < 400


def test_an_empty_batch_now_and_then_is_no_end_of_the_run(sentences: Sentences) -> None:
    reported = writer(100, loss=lambda step: math.nan if step in (40, 71, 100) else 2.0)
    assert first_nans([reported]) == {}
    gone = writer(100, loss=lambda step: math.nan if step == 40 or step > 97 else 2.0)
    sentences(first_nans([gone])["4711"].sign.text)


def test_gradients_that_are_nan_explode_or_vanish() -> None:
    usual = noisy(0.8, 0.4)
    assert codes(writer(100, norm=lambda step: math.nan if step >= 98 else usual(step))) == {"num.grad_nan"}
    assert codes(writer(100, norm=lambda step: math.nan if step == 98 else usual(step))) == set()
    assert codes(writer(100, norm=lambda step: 55.0 if step >= 98 else usual(step))) == {"num.grad_explodes"}
    assert codes(writer(100, norm=lambda step: 1e-9 if step >= 98 else usual(step))) == {"num.grad_vanishes"}


def test_a_loss_scale_at_its_floor_matters_where_steps_are_skipped() -> None:
    assert codes(writer(50, loss_scale=1.0, skipped=9.0)) == {"num.scale_min"}
    assert codes(writer(50, loss_scale=1.0)) == set()
    assert codes(writer(50, loss_scale=65536.0, skipped=2.0)) == set()


def test_the_scale_of_bf16_is_always_at_its_floor() -> None:
    assert codes(writer(50, loss_scale=1.0, skipped=1.0)) == set()
    fell = writer(50, loss_scale=1.0, skipped=1.0)
    fell.highest_scale = 65536.0
    assert codes(fell) == {"num.scale_min"}


def test_many_skipped_steps() -> None:
    assert codes(writer(100, skipped=40.0, loss_scale=1024.0)) == {"num.steps_skipped"}


def test_a_loss_that_stands_still_is_a_word() -> None:
    (sign,) = numerics(writer(1200, loss=noisy(0.6931, 0.0001)))
    assert (sign.code, sign.severity) == ("num.plateau", "info")
    falling = writer(1200, loss=lambda step: 3.0 / step**0.1)
    assert codes(falling) == set()


@pytest.mark.parametrize("start", range(20_000, 60_000, 2_000))
def test_a_noisy_loss_that_falls_slowly_does_not_stand_still(start: int) -> None:
    dice = random.Random(start)
    late = writer(1200, loss=lambda step: (1.7 + 6 * (start + step) ** -0.3) * dice.gauss(1.0, 0.015))
    assert codes(late) == set()


def test_a_run_that_became_slower_is_reported_with_both_times() -> None:
    usual = noisy(0.50, 0.05)
    reported = writer(240, took=lambda step: 1.3 * usual(step) if step > 215 else usual(step))
    (sign,) = pace(reported, ())
    assert sign.code == "train.slow"
    assert sign.hold_s > 0
    assert "s (+" in sign.text
    assert codes(writer(240, took=usual)) == set()


@pytest.mark.parametrize(
    ("takes_s", "looks_s"), [(1.4, 1.0), (3.4, 1.0), (6.0, 5.0), (17.0, 5.0), (27.0, 5.0)]
)
def test_times_that_a_clock_has_rounded_make_no_run_slower(takes_s: float, looks_s: float) -> None:
    """Stamps of whole seconds, or a log that is read now and then; an evaluation in every 20th step."""
    dice = random.Random(5)

    def seen(paces: Sequence[float]) -> list[float]:
        steps = (takes_s * pace * dice.gauss(1, 0.02) for pace in paces)
        written = accumulate(step + (dice.uniform(30, 400) if dice.random() < 0.05 else 0) for step in steps)
        stamps = [math.ceil(at / looks_s) * looks_s for at in written]
        return [later - sooner for sooner, later in pairwise(stamps) if later > sooner]

    even = seen([1.0] * 1200)
    assert not [end for end in range(220, len(even)) if list(slower(even[end - 220 : end]))]
    became = seen([1.0] * 200 + [1.3] * 60)
    assert list(slower(became[:250]))


def test_what_the_run_waits_for(sentences: Sentences) -> None:
    reported = writer(60, step_time_s=1.0)

    def timers(**seconds: Sequence[float]) -> set[str]:
        reported.timings = {name: deque(Value(each, 60.0) for each in own) for name, own in seconds.items()}
        return codes(reported)

    assert timers(forward=[0.2] * 3, grads_allreduce=[0.4, 0.41, 0.43], all_reduce=[0.4] * 3)
    (sign,) = pace(reported, ())
    assert sign.code == "train.communication_bound"
    sentences(sign.text)
    assert timers(batch_generator=[0.5] * 3) == {"train.data_bound"}
    assert timers(data=[0.5] * 3) == {"train.data_bound"}
    assert timers(data=[0.1] * 3) == set()
    assert timers(data=[0.1, 0.1, 0.8]) == set()  # one hiccup of the loader, reported before a pause
    assert timers(data=[0.8]) == set()
    assert timers(batch_generator=[0.1] * 3, train_batch=[1.0] * 3) == set()


def test_what_was_true_before_a_pause_is_reported_only_when_the_run_confirms_it(sentences: Sentences) -> None:
    fleet = Fleet(Plan((NodeSpec("gpu-000"),)))
    watch = TrainingWatch(Thresholds())

    def steps(first: int, count: int, data_s: float) -> None:
        for step in range(first, first + count):
            fields = {"step": step, "step_time_s": 4.0}
            report(fleet.progress, fields, 4.0 * step, job="4711", phases_s={"data": data_s})

    steps(1, 20, data_s=0.1)
    steps(21, 3, data_s=1.6)
    for now in range(93, 400, 3):  # the loader's hiccups, and then everyone evaluates
        assert not watch.go(fleet, float(now), 1e9)
    for step in (100, 101):
        steps(step, 1, data_s=1.6)
        assert not watch.go(fleet, 4.0 * step + 1.0, 1e9)
    steps(102, 18, data_s=1.6)
    assert watch.go(fleet, 477.0, 1e9)
    sentences([(each.code, each.text) for each in watch.alerts.values()])


def test_no_rank_is_named_in_what_the_rank_that_was_read_says_of_the_job() -> None:
    fleet = Fleet(Plan((NodeSpec("gpu-000"),)))
    watch = TrainingWatch(Thresholds())
    at = 0.0
    for step in range(1, 140):
        at += 1.0 if step < 60 else 2.0
        for rank in (0, 1):
            reported = {"step": step, "step_time_s": 1.0 if step < 60 else 2.0}
            report(fleet.progress, reported, at + rank / 10, rank=rank, job="4711")
        watch.go(fleet, at + 0.5, 1e9)
    (alert,) = watch.alerts.values()
    assert (alert.code, alert.rank, alert.node, alert.job) == ("train.slow", None, None, "4711")


@pytest.mark.parametrize("steps", [40, 100, 400])
def test_a_loss_that_rises_from_1_to_6_is_reported_in_runs_of_any_length(steps: int) -> None:
    assert "num.loss_rising" in codes(writer(steps, loss=lambda step: 1.0 + 4.9 * step / steps))
    assert "num.loss_rising" not in codes(writer(steps, loss=lambda step: 5.9 - 4.9 * step / steps))


@pytest.mark.parametrize(("limit_s", "found"), [(0.0, []), (9.0, ["train.slow"]), (11.0, [])])
def test_a_run_that_is_slow_from_its_start_is_reported_where_a_limit_is_set(
    limit_s: float, found: list[str]
) -> None:
    times = RankProgress("gpu-000", "a.log")
    times.steps.extend(LoggedStep(step, 10.0 * step, 10.0) for step in range(1, 31))
    assert [sign.code for sign in pace(times, (), limit_s)] == found


def test_little_used_gpus_are_a_word_after_a_while() -> None:
    (sign,) = pace(writer(60), (30.0, 35.0, 99.0))
    assert (sign.code, sign.severity) == ("train.low_utilisation", "info")
    assert sign.hold_s >= 300


def test_healthy_runs_say_nothing() -> None:
    dice = random.Random(11)
    for _ in range(50):
        decay, noise = dice.uniform(0.05, 0.3), dice.uniform(0.005, 0.08)
        steps = dice.randrange(20, 900)
        run = writer(
            steps,
            loss=lambda step: 8.0 / step**decay * (1 + noise * dice.uniform(-1, 1)),  # noqa: B023 - called before the next one
            norm=lambda _step: dice.lognormvariate(0, 0.4),
            took=lambda _step: dice.gauss(1.0, 0.02),
        )
        assert codes(run, (97.0, 99.0)) == set()


@pytest.mark.parametrize("steps", [200, 600, 1200])
def test_a_loss_that_rises_to_the_end_is_a_warning(steps: int) -> None:
    dice = random.Random(steps)
    rise = writer(
        steps, loss=lambda step: (2.0 + max(0, step - steps / 3) * 12 / steps) * dice.gauss(1, 0.02)
    )
    (sign,) = (each for each in numerics(rise) if each.code == "num.loss_rising")
    assert sign.severity == "warning"
    assert sign.step is not None
    assert steps / 3 < sign.step < steps * 0.6


@pytest.mark.parametrize("kind", MADE_SO)
def test_losses_that_jump_by_their_nature_do_not_rise(kind: str) -> None:
    dice = random.Random(8)
    losses = [MADE_SO[kind](dice, step) for step in range(2001)]
    for steps in range(100, 2000, 41):
        assert "num.loss_rising" not in codes(writer(steps, loss=losses.__getitem__)), steps


@pytest.mark.parametrize(("began_s", "first_s"), [(300.0, -700.0), (-math.inf, 0.0)])
def test_a_nan_of_before_we_came_has_the_time_of_its_step(began_s: float, first_s: float) -> None:
    """`first_s`: seconds from the first look; without a time in the log that is the best bound."""
    fleet = Fleet(Plan((NodeSpec("gpu-001"),)))
    reported = writer(20, loss=lambda _step: math.nan)
    reported.stepped_at = 1000.0
    reported.past = [LoggedStep(0, 299.0, None, 2.0), LoggedStep(1, began_s, None, math.nan)]
    reported.steps = deque(replace(step, step=step.step + 1) for step in reported.steps)
    fleet.progress.writers["gpu-001", "/logs/rank_0.log", 0, None, None, None] = reported
    watch = TrainingWatch(Thresholds())
    watch.go(fleet, 1000.0, 1_800_000_000.0)
    (alert,) = (each for each in watch.alerts.values() if each.code == "num.nan_loss")
    assert (alert.first, alert.fields["step"]) == (1_800_000_000.0 + first_s, 1)


def test_a_node_cannot_have_more_jobs_fail_than_it_can_run() -> None:
    def bad(step: int) -> dict[str, object]:
        return {"step": step, "loss": "nan"}

    fleet = Fleet(Plan((NodeSpec("gpu-001"), NodeSpec("gpu-002"))))
    for number in range(200):
        for step in range(1, 8):
            reported = frame(bad(step), step, file=f"/logs/{number}.log", job=f"forged-{number}")
            fleet.progress.take("gpu-001", reported, reported.t, step)
    for step in range(1, 8):
        reported = frame(bad(step), step, job="real")
        fleet.progress.take("gpu-002", reported, reported.t, step)
    watch = TrainingWatch(Thresholds())
    for now in (8.0, 80.0):
        watch.go(fleet, now, now)
    jobs = [alert.job for alert in watch.alerts.values()]
    assert len(jobs) == MAX_JOBS + 1
    assert "real" in jobs
