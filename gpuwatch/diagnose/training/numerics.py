"""Detects abnormal losses, gradients and loss scales. Pure functions over logged steps.

Windows are of logged steps, so a log that prints every hundredth step is judged by what it prints. The
factors are gpuwatch's own: far above the step-to-step changes of healthy public runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from statistics import median

from gpuwatch.diagnose.training.symptom import Sign
from gpuwatch.fleet.logs.logged_steps import LoggedStep
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.rules.model import rule_ids
from gpuwatch.telemetry.training.gradients import EXPLOSION_FACTOR, VANISHED_GRADIENT

WINDOW_STEPS = 64
MIN_STEPS = 16
"""Least logged steps that a median needs."""
SPIKE, SPIKE_SPREADS = 1.5, 6.0
"""A spike is above SPIKE times the running median, and SPIKE_SPREADS spreads above it.

A spread is the median absolute deviation of the logarithm: small batches and diffusion jump by factors.
"""
COMES_AND_GOES = 3
"""Number of earlier rises of the loss (or dips of the norm) of one size that make them normal."""
IN_A_ROW = 3
LASTING_STEPS = 32
"""Number of logged NaN steps after which the NaN is no passing overflow."""
PLATEAU_STEPS = 1000
PLATEAU_PCT = 0.1
PLATEAU_ERRORS = 2.0
"""Standard errors by which the change of a plateau must stay below the limit."""
SCALE_FLOOR = 1.0
SKIPPED_SHARE = 0.25
RISEN, RISEN_NOISES = 1.5, 3.0
"""A lasting rise is above RISEN times the best median, and RISEN_NOISES noise levels above it."""
RISEN_FAR, FAR_STEPS = 3.0, 8
"""A loss has risen far if it is at RISEN_FAR times its best for FAR_STEPS logged steps."""
DIVERGED, STAYS = 1.8, 0.9
"""A diverged loss is above DIVERGED times its best and ends above STAYS times its first risen level."""
RISEN_STEPS = 100
"""Number of logged steps that a rise must last; else the last quarter of the run."""


def numerics(writer: RankProgress) -> Iterator[Sign]:
    """Yield the signs in the newest steps of the job's writer; NaN losses are left to `first_nan`."""
    every = list(writer.steps) if writer.per_epoch else since_restart(writer.steps)
    if not every:
        return
    curve = with_past(writer, every)
    yield from spike([step.loss for step in curve if step.loss is not None and math.isfinite(step.loss)])
    steps = every[-4 * WINDOW_STEPS :]
    yield from gradient_nan(every)
    norms = [step.grad_norm for step in steps if step.grad_norm is not None and math.isfinite(step.grad_norm)]
    yield from gradients(norms)
    yield from scale(writer)
    yield from list(rising(curve)) or risen_far(curve)
    yield from plateau(every)
    yield from skipped(writer)


def with_past(writer: RankProgress, live: list[LoggedStep]) -> list[LoggedStep]:
    """Return the steps whose losses are judged: `live`, after those of before the session while it is short.

    Only steps with times of their own; these are thinned evenly, as in a log that prints every n-th step.
    """
    if writer.per_epoch or len(live) >= 4 * WINDOW_STEPS:
        return live
    before = [step for step in writer.past if math.isfinite(step.at) and step.step < live[0].step]
    return since_restart([*before, *live])


def since_restart(steps: Iterable[LoggedStep]) -> list[LoggedStep]:
    """Return the steps after the last decrease: since the restart from a checkpoint or from the beginning."""
    kept: list[LoggedStep] = []
    for step in steps:
        if kept and step.step < kept[-1].step:
            kept.clear()
        kept.append(step)
    return kept


def gradient_nan(steps: Sequence[LoggedStep]) -> Iterator[Sign]:
    """Yield a sign if the gradient norm is NaN or Inf repeatedly (a single fp16 step is normal)."""
    reported = [step for step in steps if step.grad_norm is not None or step is steps[-1]]
    nan = list(takewhile(_is_nan, reversed(reported)))
    if len(nan) < IN_A_ROW:
        return
    lasts = len(nan) >= LASTING_STEPS
    text = f"the gradient norm is {nan[0].grad_norm} for {len(nan) if lasts else IN_A_ROW} logged steps"
    yield Sign(rule_ids.NUM_GRAD_NAN, "error", text, step=nan[-1].step if lasts else None, lasts=lasts)


def _is_nan(step: LoggedStep) -> bool:
    return step.grad_norm is not None and not math.isfinite(step.grad_norm)


def spike(losses: Sequence[float]) -> Iterator[Sign]:
    """Yield a sign if the last two logged losses are far above the running median of a positive loss.

    A loss around zero (rewards, adversaries, masked batches) has no such median.
    """
    if len(losses) < MIN_STEPS + 2:
        return
    before = [loss for loss in losses[-WINDOW_STEPS - 2 : -2] if loss > 0]
    if 4 * len(before) < 3 * (min(len(losses), WINDOW_STEPS + 2) - 2) or len(set(before)) < MIN_STEPS // 2:
        return
    usual = median(before)
    spread = median(abs(math.log(loss / usual)) for loss in before)
    limit = usual * max(SPIKE, math.exp(SPIKE_SPREADS * spread))
    if min(losses[-2:]) <= limit:
        return
    rises = sum(earlier <= limit < later for earlier, later in pairwise(losses))
    if rises <= COMES_AND_GOES:
        text = f"the loss is {losses[-1]:.4g}; it was usually {usual:.4g}"
        yield Sign(rule_ids.NUM_LOSS_SPIKE, "warning", text, of_curve=True)


def gradients(norms: Sequence[float]) -> Iterator[Sign]:
    """Yield a sign if gradient norms explode or vanish.

    They explode if the last `IN_A_ROW` norms all exceed `EXPLOSION_FACTOR` times the median of those before.
    They vanish if the last ones fall below `VANISHED_GRADIENT`, an absolute limit, and the median does not,
    nor `COMES_AND_GOES` earlier norms.
    """
    if len(norms) < MIN_STEPS + IN_A_ROW:
        return
    usual, last = median(norms[-WINDOW_STEPS - IN_A_ROW : -IN_A_ROW]), norms[-IN_A_ROW:]
    if usual > 0 and min(last) > EXPLOSION_FACTOR * usual:
        text = f"the gradient norm is {last[-1]:.4g}; it was usually {usual:.4g}"
        yield Sign("num.grad_explodes", "warning", text)
    often = sum(norm < VANISHED_GRADIENT for norm in norms[:-IN_A_ROW]) >= COMES_AND_GOES
    if max(last) < VANISHED_GRADIENT and usual >= VANISHED_GRADIENT and not often:
        text = f"the gradient norm is {last[-1]:.2g} for {IN_A_ROW} logged steps: the run no longer learns"
        yield Sign("num.grad_vanishes", "warning", text)


def scale(writer: RankProgress) -> Iterator[Sign]:
    """Yield a sign if the loss scale is at its minimum and steps are skipped: the run no longer learns."""
    value = writer.value("loss_scale")
    skips = writer.value("skipped")
    was_higher = writer.highest_scale is not None and writer.highest_scale > SCALE_FLOOR  # bf16 has always 1
    if value is not None and value <= SCALE_FLOOR and skips and (was_higher or skips >= IN_A_ROW):
        yield Sign(
            rule_ids.NUM_SCALE_MIN,
            "critical",
            f"the loss scale is down to {value:g}, steps are skipped",
            30.0,
        )


def plateau(steps: Sequence[LoggedStep]) -> Iterator[Sign]:
    """Yield a sign (`info`) if the loss has not changed over the last thousand steps: it may have converged.

    Only if its noise permits: late in a healthy run a loss falls by less than it fluctuates.
    """
    recent = [s for s in steps if s.loss is not None and math.isfinite(s.loss)]
    recent = [s for s in recent if recent[-1].step - s.step <= PLATEAU_STEPS]
    if len(recent) < 4 * MIN_STEPS or recent[-1].step - recent[0].step < 0.9 * PLATEAU_STEPS:
        return
    quarter = len(recent) // 4
    (first, before), (last, after) = (
        _level([s.loss or 0.0 for s in part]) for part in (recent[:quarter], recent[-quarter:])
    )
    most = abs(last - first) + PLATEAU_ERRORS * math.hypot(before, after)
    if first and most / abs(first) * 100 < PLATEAU_PCT:
        yield Sign("num.plateau", "info", f"the loss is constant at {last:.4g} since step {recent[0].step}")


def rising(steps: Sequence[LoggedStep]) -> Iterator[Sign]:
    """Yield a sign if a positive loss stays above its best, by medians of `MIN_STEPS` logged steps each.

    The best median is that of two windows in a row, so that a few easy batches do not set it. A loss that
    came back from such a height, or is often there (rewards, adversaries, alternating tasks), is excluded.
    """
    recent = [s for s in steps if s.loss is not None and math.isfinite(s.loss)]
    count = len(recent) // MIN_STEPS
    lasting = min(RISEN_STEPS // MIN_STEPS, max(2, count // 4))
    if count < 2 * lasting + 2:
        return
    recent = recent[len(recent) - count * MIN_STEPS :]
    windows = [
        [s.loss or 0.0 for s in recent[n : n + MIN_STEPS]] for n in range(0, count * MIN_STEPS, MIN_STEPS)
    ]
    levels = [median(window) for window in windows]
    if min(min(window) for window in windows) <= 0:
        return
    before = levels[:-lasting]
    at = min(range(len(before) - 1), key=lambda n: max(before[n], before[n + 1]))
    best = max(before[at], before[at + 1])
    noise = 1.4826 * max(median(abs(loss - levels[n]) for loss in windows[n]) for n in (at, at + 1))
    limit = max(RISEN * best, best + RISEN_NOISES * noise)
    came_back = any(earlier <= limit < later for earlier, later in pairwise(levels[: at + 1]))
    rises = sum(earlier <= limit < later for earlier, later in pairwise(levels[at:]))
    if came_back or rises > 1 or min(levels[-lasting:]) <= limit:
        return
    since = next(n for n in range(at, count) if levels[n] > limit)
    text = f"the loss rose from {best:.4g} about step {recent[at * MIN_STEPS].step} to {levels[-1]:.4g}"
    last = levels[-lasting:]
    diverged = (
        lasting >= RISEN_STEPS // MIN_STEPS and min(last) > DIVERGED * best and last[-1] > STAYS * last[0]
    )
    first = recent[since * MIN_STEPS].step
    yield Sign("num.loss_rising", "warning", text, step=first, lasts=diverged, of_curve=True)


def risen_far(steps: Sequence[LoggedStep]) -> Iterator[Sign]:
    """Yield a sign if the loss is at several times its best, also in runs too short for `rising`.

    Each of the last `FAR_STEPS` logged losses is above `RISEN_FAR` times the best median of as many, and the
    run has not recovered from such a rise before.
    """
    losses = [s.loss for s in steps[-4 * WINDOW_STEPS :] if s.loss is not None and math.isfinite(s.loss)]
    if len(losses) < 3 * FAR_STEPS or min(losses) <= 0:
        return
    levels = [median(losses[n : n + FAR_STEPS]) for n in range(len(losses) - 2 * FAR_STEPS + 1)]
    best = min(levels)
    at = levels.index(best)
    limit = RISEN_FAR * best
    if min(losses[-FAR_STEPS:]) > limit and max(losses[: at + 1]) <= min(losses[-FAR_STEPS:]):
        text = f"the loss rose from {best:.4g} to {losses[-1]:.4g}"
        yield Sign("num.loss_rising", "warning", text, of_curve=True)


def _level(losses: Sequence[float]) -> tuple[float, float]:
    """Return the median of losses and its standard error: 1.2533 sigma / sqrt(n).

    Sigma is 1.4826 median absolute deviations.
    """
    middle = median(losses)
    deviation = median(abs(loss - middle) for loss in losses)
    return middle, 1.2533 * 1.4826 * deviation / math.sqrt(len(losses))


def skipped(writer: RankProgress) -> Iterator[Sign]:
    """Yield a sign if a large share of the steps is skipped, as a counter of the log shows."""
    count, step = writer.value("skipped"), writer.value("step")
    if count is None or not step or count > step or step < MIN_STEPS or count < MIN_STEPS:
        return
    if count / step > SKIPPED_SHARE:
        text = f"{count:.0f} of {step:.0f} steps were skipped"
        yield Sign("num.steps_skipped", "warning", text)
