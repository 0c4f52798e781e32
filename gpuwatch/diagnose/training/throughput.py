"""Speed of a run relative to its own past, and what it waits for. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median

from gpuwatch.diagnose.training.symptom import Sign
from gpuwatch.fleet.logs.logged_steps import LoggedStep
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.fleet.logs.step_timers import COMMUNICATION, LOADING, longest_timer
from gpuwatch.rules.model import rule_ids

RECENT_STEPS, PAST_STEPS = 20, 200
MIN_PAST_STEPS = 40
MIN_TIMINGS = 3
SLOWER_FACTOR = 1.10
"""Least factor by which steps must become longer and stay so (FALCON, arXiv 2410.12588, reports 10 %)."""
COLLAPSED_FACTOR = 2.0
"""Multiple of the usual step time that counts as collapsed if it lasts until the end of the run."""
LASTS_S = 60.0
PAUSE_FACTOR = 2.0
"""A step above this multiple of the median contains a pause: an evaluation, a checkpoint."""
LOW_UTILISATION_PCT = 50.0
WAITING_SHARE = 0.30
"""Share of the step in communication or data loading above which the run counts as waiting for it."""


def pace(writer: RankProgress, busy_pct: Sequence[float], slow_step_s: float = 0.0) -> Iterator[Sign]:
    """Yield the signs in a run's speed.

    Args:
        writer: The writer that logs for the job.
        busy_pct: Utilization of the job's GPUs now.
        slow_step_s: A step that takes longer is slow even if that was usual; 0: no such limit.
    """
    yield from list(slower(writer.step_times(RECENT_STEPS + PAST_STEPS))) or over_limit(writer, slow_step_s)
    yield from waits(writer)
    if busy_pct and median(busy_pct) < LOW_UTILISATION_PCT:
        text = f"the median utilization of the job's {len(busy_pct)} GPUs is {median(busy_pct):.0f} %"
        yield Sign(rule_ids.TRAIN_LOW_UTILISATION, "info", text, 300.0)


def slower(times: Sequence[float]) -> Iterator[Sign]:
    """Yield a sign if the last steps take at least 10 % longer than those before."""
    past = times[:-RECENT_STEPS]
    if len(past) < MIN_PAST_STEPS:
        return
    usual, now = step_s(past), step_s(times[-RECENT_STEPS:])
    if usual > 0 and now >= SLOWER_FACTOR * usual:
        text = f"a step takes {now:.3g} s, before {usual:.3g} s (+{100 * (now / usual - 1):.0f} %)"
        yield Sign(rule_ids.TRAIN_SLOW, "warning", text, LASTS_S)


def over_limit(writer: RankProgress, slow_step_s: float) -> Iterator[Sign]:
    """Yield a sign if steps take longer than the configured limit, for a run that was slow from its start.

    It need not last once more if the log's own times show it for `LASTS_S`.
    """
    if not slow_step_s:
        return
    times, logged = writer.step_times(RECENT_STEPS), _logged_step_s(writer)
    now = step_s(times) if len(times) >= MIN_TIMINGS else logged
    if now is not None and now > slow_step_s:
        lasted = logged is not None and logged > slow_step_s
        text = f"a step takes {now:.3g} s, over the limit of {slow_step_s:g} s (slow_step_s)"
        yield Sign(rule_ids.TRAIN_SLOW, "warning", text, 0.0 if lasted else LASTS_S)


def _logged_step_s(writer: RankProgress) -> float | None:
    """Return the seconds per step over the last `LASTS_S` by the times of the log's steps, without pauses.

    None: the log has no times, is younger than that, or shows too few steps.
    """
    dated = [step for step in writer.curve() if math.isfinite(step.at)]
    if writer.per_epoch or not dated or dated[-1].at - dated[0].at < LASTS_S:
        return None
    recent = [step for step in dated if step.at >= dated[-1].at - LASTS_S]
    before = dated[-len(recent) - 1 : -len(recent)]
    gaps = [
        (after.at - sooner.at) / (after.step - sooner.step)
        for sooner, after in pairwise([*before, *recent])
        if after.step > sooner.step
    ]
    return step_s(gaps) if len(gaps) >= MIN_TIMINGS else None


def collapsed(steps: Sequence[LoggedStep]) -> Iterator[Sign]:
    """Yield a sign if, from some step to its end, a run took at least twice the usual time per step."""
    times = [(step.step, step.took_s) for step in steps if step.took_s and math.isfinite(step.took_s)]
    for step, now, usual in _fallen(times):
        text = f"a step takes {now:.3g} s, before {usual:.3g} s (x{now / usual:.1f})"
        yield Sign(rule_ids.TRAIN_SLOW, "warning", text, LASTS_S, step=step)


def collapsed_rate(steps: Sequence[LoggedStep]) -> Iterator[Sign]:
    """Yield a sign if the rate of an ended run fell to half or less, for runs that log no times.

    The rate is in tokens or samples per second; see `collapsed`.
    """
    for unit in ("tokens", "samples"):
        rates = [(step.step, getattr(step, f"{unit}_per_s")) for step in steps]
        found = _fallen([(step, 1.0 / rate) for step, rate in rates if rate and math.isfinite(rate)])
        for step, now, usual in found:
            text = f"{1 / now:,.0f} {unit}/s, before {1 / usual:,.0f} (x{usual / now:.2f})"
            yield Sign(rule_ids.TRAIN_SLOW, "warning", text, LASTS_S, step=step)
            return


def _fallen(known: Sequence[tuple[int, float]]) -> Iterator[tuple[int, float, float]]:
    """Yield (step, median seconds from it on, median before) if step times at least double there for good."""
    count = len(known) // RECENT_STEPS
    levels = [
        median(took for _, took in known[n * RECENT_STEPS : (n + 1) * RECENT_STEPS]) for n in range(count)
    ]
    for at in range(MIN_PAST_STEPS // RECENT_STEPS, count - 1):
        usual = median(levels[:at])
        if min(levels[at:]) >= COLLAPSED_FACTOR * usual:
            yield known[at * RECENT_STEPS][0], median(levels[at:]), usual
            return


def went_back(steps: Sequence[LoggedStep]) -> Iterator[Sign]:
    """Yield a sign if steps repeat: the job restarted from a checkpoint or from its beginning."""
    backs = [
        (before.step, after.step)
        for at, (before, after) in enumerate(pairwise(steps), 1)
        if after.step < before.step and at >= RECENT_STEPS and at + RECENT_STEPS <= len(steps)
    ]
    if backs:
        times = "once" if len(backs) == 1 else f"{len(backs)} times"
        text = f"step {backs[-1][0]:,} was followed by step {backs[-1][1]:,}: restarted {times}"
        yield Sign("train.restarted", "warning", text)


def step_s(times: Sequence[float]) -> float:
    """Return the mean seconds per step without pauses; `times` must not be empty.

    It is a mean, because a log in whole seconds shows 1.4 s as 1 or 2, and a median would jump.
    """
    pause = PAUSE_FACTOR * median(times)
    return fmean(took for took in times if took <= pause)


def waits(writer: RankProgress) -> Iterator[Sign]:
    """Yield a sign for a large share of the step that logged timers spend in communication or data loading.

    The medians of the last logged values count, so that one hiccup of the loader has no effect.
    """
    whole_s = step_s(writer.step_times(RECENT_STEPS) or [writer.value("step_time_s") or 0.0])
    if not whole_s:
        return
    reported = {name: [value.value for value in values] for name, values in writer.timings.items()}
    phases = {name: median(seconds) for name, seconds in reported.items() if len(seconds) >= MIN_TIMINGS}
    for code, words, what in (
        (rule_ids.TRAIN_COMMUNICATION_BOUND, COMMUNICATION, "communication"),
        ("train.data_bound", LOADING, "loading data"),
    ):
        share = longest_timer(phases, words) / whole_s
        if WAITING_SHARE < share <= 1.0:
            text = f"{100 * share:.0f} % of a step is {what}"
            yield Sign(code, "warning", text, LASTS_S)
