"""Losses, gradients and loss scales that are not as they should be. Pure functions over reported steps.

Windows are of reported steps, so a log that prints every hundredth step is judged by what it prints. The
factors are ours: far over what healthy public runs show from step to step, and harmless on a quiet
one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from statistics import median

from gpuwatch.diagnose.training.symptom import Sign
from gpuwatch.fleet.logs.progress import LoggedStep, RankProgress
from gpuwatch.telemetry.training.gradients import EXPLOSION_FACTOR, VANISHED_GRADIENT

WINDOW_STEPS = 64
MIN_STEPS = 16
"""Reported steps before a median means anything."""
SPIKE, SPIKE_SPREADS = 1.5, 6.0
"""A loss spikes over so many times the running median, and so many spreads (median deviations of its
logarithm) above it: small batches and diffusion jump by factors."""
COMES_AND_GOES = 3
"""A loss that rose so high, or a norm that was so low, this often before is made so: several tasks, state."""
IN_A_ROW = 3
LASTING_STEPS = 32
"""NaN for so many reported steps is no overflow that passes."""
PLATEAU_STEPS = 1000
PLATEAU_PCT = 0.1
PLATEAU_ERRORS = 2.0
"""Of the change, so many standard errors must stay under that, too."""
SCALE_FLOOR = 1.0
SKIPPED_SHARE = 0.25
RISEN, RISEN_NOISES = 1.5, 3.0
"""A loss has risen lastingly over so many times its best median, and so many of its noises above it."""
RISEN_FAR, FAR_STEPS = 3.0, 8
"""So far over its best a loss is lost, in so few reported steps."""
DIVERGED, STAYS = 1.8, 0.9
"""A run has diverged whose loss stands over so many times its best, and does not fall below this share."""
RISEN_STEPS = 100
"""For so many reported steps, or for the last quarter of the run."""


def numerics(writer: RankProgress) -> Iterator[Sign]:
    """What the newest steps of the rank that logs for a job state; a NaN loss is `first_nan`'s."""
    every = list(writer.steps) if writer.per_epoch else since_restart(writer.steps)
    if not every:
        return
    yield from spike([step.loss for step in every if step.loss is not None and math.isfinite(step.loss)])
    steps = every[-4 * WINDOW_STEPS :]
    yield from gradient_nan(every)
    norms = [step.grad_norm for step in steps if step.grad_norm is not None and math.isfinite(step.grad_norm)]
    yield from gradients(norms)
    yield from scale(writer)
    yield from list(rising(every)) or risen_far(every)
    yield from plateau(every)
    yield from skipped(writer)


def since_restart(steps: Iterable[LoggedStep]) -> list[LoggedStep]:
    """The steps after the last that went back: from a checkpoint, or from the beginning."""
    kept: list[LoggedStep] = []
    for step in steps:
        if kept and step.step < kept[-1].step:
            kept.clear()
        kept.append(step)
    return kept


def gradient_nan(steps: Sequence[LoggedStep]) -> Iterator[Sign]:
    """NaN and Inf of the gradient norm, when it repeats (one fp16 step is normal)."""
    reported = [step for step in steps if step.grad_norm is not None or step is steps[-1]]
    nan = list(takewhile(_is_nan, reversed(reported)))
    if len(nan) < IN_A_ROW:
        return
    lasts = len(nan) >= LASTING_STEPS
    text = f"the gradient norm is {nan[0].grad_norm} for {len(nan) if lasts else IN_A_ROW} logged steps"
    yield Sign("num.grad_nan", "error", text, step=nan[-1].step if lasts else None, lasts=lasts)


def _is_nan(step: LoggedStep) -> bool:
    return step.grad_norm is not None and not math.isfinite(step.grad_norm)


def spike(losses: Sequence[float]) -> Iterator[Sign]:
    """The last two reported losses stand far above the running median of a loss that is above zero.

    A loss that is around zero, or often at it (rewards, adversaries, masked batches), has no such median.
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
        yield Sign("num.loss_spike", "warning", f"the loss is {losses[-1]:.4g} where {usual:.4g} was usual")


def gradients(norms: Sequence[float]) -> Iterator[Sign]:
    """Norms that explode or vanish, against their own running median."""
    if len(norms) < MIN_STEPS + IN_A_ROW:
        return
    usual, last = median(norms[-WINDOW_STEPS - IN_A_ROW : -IN_A_ROW]), norms[-IN_A_ROW:]
    if usual > 0 and min(last) > EXPLOSION_FACTOR * usual:
        text = f"the gradient norm is {last[-1]:.4g} where {usual:.4g} was usual"
        yield Sign("num.grad_explodes", "warning", text)
    often = sum(norm < VANISHED_GRADIENT for norm in norms[:-IN_A_ROW]) >= COMES_AND_GOES
    if max(last) < VANISHED_GRADIENT and usual >= VANISHED_GRADIENT and not often:
        text = f"the gradient norm is {last[-1]:.2g} for {IN_A_ROW} logged steps: nothing is learnt"
        yield Sign("num.grad_vanishes", "warning", text)


def scale(writer: RankProgress) -> Iterator[Sign]:
    """A loss scale at its floor: every step overflows, the run will not learn any more."""
    value = writer.value("loss_scale")
    skips = writer.value("skipped")
    was_higher = writer.highest_scale is not None and writer.highest_scale > SCALE_FLOOR  # bf16 has always 1
    if value is not None and value <= SCALE_FLOOR and skips and (was_higher or skips >= IN_A_ROW):
        yield Sign(
            "num.scale_min", "critical", f"the loss scale is down to {value:g}, steps are skipped", 30.0
        )


def plateau(steps: Sequence[LoggedStep]) -> Iterator[Sign]:
    """The loss has not moved over the last thousand steps; a word, no alarm: it may have converged.

    Reported only where its noise allows to state it: late in a healthy run a loss falls by less than it
    jitters.
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
        yield Sign("num.plateau", "info", f"the loss stands at {last:.4g} since step {recent[0].step}")


def rising(steps: Sequence[LoggedStep]) -> Iterator[Sign]:
    """The loss stands lastingly above its best: medians of `MIN_STEPS` logged steps each, of a loss above 0.

    The best median is that of two windows in a row, so that an easy batch or two does not set it. A loss that
    came back from such a height, or is often there (rewards, adversaries, tasks that take turns), is made so.
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
    text = f"the loss rose to {levels[-1]:.4g}, it was {best:.4g} about step {recent[at * MIN_STEPS].step}"
    last = levels[-lasting:]
    diverged = (
        lasting >= RISEN_STEPS // MIN_STEPS and min(last) > DIVERGED * best and last[-1] > STAYS * last[0]
    )
    yield Sign("num.loss_rising", "warning", text, step=recent[since * MIN_STEPS].step, lasts=diverged)


def risen_far(steps: Sequence[LoggedStep]) -> Iterator[Sign]:
    """A loss that is several times its best: that is reported of a run too short for `rising`.

    Every one of the last `FAR_STEPS` reported losses is over `RISEN_FAR` times the best median of as many,
    and the run has not come back from such a height before.
    """
    losses = [s.loss for s in steps[-4 * WINDOW_STEPS :] if s.loss is not None and math.isfinite(s.loss)]
    if len(losses) < 3 * FAR_STEPS or min(losses) <= 0:
        return
    levels = [median(losses[n : n + FAR_STEPS]) for n in range(len(losses) - 2 * FAR_STEPS + 1)]
    best = min(levels)
    at = levels.index(best)
    limit = RISEN_FAR * best
    if min(losses[-FAR_STEPS:]) > limit and max(losses[: at + 1]) <= min(losses[-FAR_STEPS:]):
        yield Sign("num.loss_rising", "warning", f"the loss rose to {losses[-1]:.4g}, it was {best:.4g}")


def _level(losses: Sequence[float]) -> tuple[float, float]:
    """The median and its standard error: 1.2533 sigma / sqrt(n), sigma 1.4826 median deviations."""
    middle = median(losses)
    deviation = median(abs(loss - middle) for loss in losses)
    return middle, 1.2533 * 1.4826 * deviation / math.sqrt(len(losses))


def skipped(writer: RankProgress) -> Iterator[Sign]:
    """The sign of a large share of skipped steps, by a counter that only grows."""
    count, step = writer.value("skipped"), writer.value("step")
    if count is None or not step or count > step or step < MIN_STEPS or count < MIN_STEPS:
        return
    if count / step > SKIPPED_SHARE:
        text = f"{count:.0f} of {step:.0f} steps were skipped"
        yield Sign("num.steps_skipped", "warning", text)
