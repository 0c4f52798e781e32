"""Losses, gradients and loss scales that are not as they should be. Pure functions over told steps.

Windows are of told steps, so a log that prints every hundredth step is judged by what it prints. The factors
are ours: far over what healthy public runs show from step to step, and in nobody's way on a quiet one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from gpuwatch.diagnose.training.sign import Sign
from gpuwatch.fleet.progress import RankProgress, Step

WINDOW = 64
LEAST = 16
"""Told steps before a median means anything."""
SPIKE, SPIKE_SPREADS = 1.5, 6.0
"""A loss spikes over so many times the running median, and so many spreads (median deviations) above it."""
EXPLODES = 10.0
VANISHED = 1e-7
IN_A_ROW = 3
PLATEAU_STEPS = 1000
PLATEAU_PCT = 0.1
PLATEAU_ERRORS = 2.0
"""Of the change, so many standard errors must stay under that, too."""
SCALE_FLOOR = 1.0
SKIPPED_SHARE = 0.25


def numerics(voice: RankProgress) -> Iterator[Sign]:
    """What the newest steps of the rank that speaks for a job say; a NaN loss is `first_nan`'s."""
    steps = list(voice.steps)[-4 * WINDOW :]
    if not steps:
        return
    yield from gradient_nan(steps)
    losses = [step.loss for step in steps if step.loss is not None and math.isfinite(step.loss)]
    yield from spike(losses)
    norms = [step.grad_norm for step in steps if step.grad_norm is not None and math.isfinite(step.grad_norm)]
    yield from gradients(norms)
    yield from scale(voice)
    yield from plateau(list(voice.steps))
    yield from skipped(voice)


def gradient_nan(steps: Sequence[Step]) -> Iterator[Sign]:
    """NaN and Inf of the gradient norm, when it repeats (one fp16 step is normal)."""
    norms = [step.grad_norm for step in steps[-IN_A_ROW:]]
    if len(norms) == IN_A_ROW and all(norm is not None and not math.isfinite(norm) for norm in norms):
        yield Sign("num.grad_nan", "error", f"the gradient norm is {norms[-1]} for {IN_A_ROW} told steps")


def spike(losses: Sequence[float]) -> Iterator[Sign]:
    """The last two told losses stand far above the running median."""
    if len(losses) < LEAST + 2:
        return
    before = losses[-WINDOW - 2 : -2]
    usual = median(before)
    spread = median(abs(loss - usual) for loss in before)
    limit = max(usual + SPIKE_SPREADS * spread, SPIKE * usual if usual > 0 else -math.inf)
    if min(losses[-2:]) > limit:
        yield Sign("num.loss_spike", "warning", f"the loss is {losses[-1]:.4g} where {usual:.4g} was usual")


def gradients(norms: Sequence[float]) -> Iterator[Sign]:
    """Norms that explode or vanish, against their own running median."""
    if len(norms) < LEAST + IN_A_ROW:
        return
    usual, last = median(norms[-WINDOW - IN_A_ROW : -IN_A_ROW]), norms[-IN_A_ROW:]
    if usual > 0 and min(last) > EXPLODES * usual:
        text = f"the gradient norm is {last[-1]:.4g} where {usual:.4g} was usual"
        yield Sign("num.grad_explodes", "warning", text)
    if max(last) < VANISHED and usual >= VANISHED:
        text = f"the gradient norm is {last[-1]:.2g} for {IN_A_ROW} told steps: nothing is learnt"
        yield Sign("num.grad_vanishes", "warning", text)


def scale(voice: RankProgress) -> Iterator[Sign]:
    """A loss scale at its floor: every step overflows, the run will not learn any more."""
    value = voice.value("loss_scale")
    skips = voice.value("skipped")
    if value is not None and value <= SCALE_FLOOR and skips:
        yield Sign(
            "num.scale_min", "critical", f"the loss scale is down to {value:g}, steps are skipped", 30.0
        )


def plateau(steps: Sequence[Step]) -> Iterator[Sign]:
    """The loss has not moved over the last thousand steps; a word, no alarm: it may have converged.

    Told only where its noise allows to say so: late in a healthy run a loss falls by less than it jitters.
    """
    recent = [s for s in steps if s.loss is not None and math.isfinite(s.loss)]
    recent = [s for s in recent if recent[-1].step - s.step <= PLATEAU_STEPS]
    if len(recent) < 4 * LEAST or recent[-1].step - recent[0].step < 0.9 * PLATEAU_STEPS:
        return
    quarter = len(recent) // 4
    (first, before), (last, after) = (
        _level([s.loss or 0.0 for s in part]) for part in (recent[:quarter], recent[-quarter:])
    )
    most = abs(last - first) + PLATEAU_ERRORS * math.hypot(before, after)
    if first and most / abs(first) * 100 < PLATEAU_PCT:
        yield Sign("num.plateau", "info", f"the loss stands at {last:.4g} since step {recent[0].step}")


def _level(losses: Sequence[float]) -> tuple[float, float]:
    """The median and its standard error: 1.2533 sigma / sqrt(n), sigma 1.4826 median deviations."""
    middle = median(losses)
    deviation = median(abs(loss - middle) for loss in losses)
    return middle, 1.2533 * 1.4826 * deviation / math.sqrt(len(losses))


def skipped(voice: RankProgress) -> Iterator[Sign]:
    """Of a counter that only grows: a large share of the last steps was skipped."""
    count, step = voice.value("skipped"), voice.value("step")
    if count is None or not step or count > step or step < LEAST or count < LEAST:
        return
    if count / step > SKIPPED_SHARE:
        text = f"{count:.0f} of {step:.0f} steps were skipped"
        yield Sign("num.steps_skipped", "warning", text)
