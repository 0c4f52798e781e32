"""Whose loss stopped being a number first: ranks share gradients, so one rank's NaN is soon everybody's."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gpuwatch.diagnose.training.sign import Sign
from gpuwatch.fleet.progress import RankProgress, Step

NAN_LOSS = "num.nan_loss"


@dataclass(frozen=True)
class FirstNan:
    """The voice of a job that told it at the earliest step."""

    voice: RankProgress
    sign: Sign
    alone: bool
    """False: other ranks told it at that very step, so that it does not lead to one of them."""


def first_nans(voices: Iterable[RankProgress]) -> dict[str | None, FirstNan]:
    """By job, of those whose loss is no number now; compared by step, as clocks and logs lag."""
    jobs: dict[str | None, list[tuple[Step, RankProgress]]] = {}
    for voice in voices:
        step = began(voice)
        if step is not None:
            jobs.setdefault(voice.job, []).append((step, voice))
    return {job: _first(told) for job, told in jobs.items()}


def began(voice: RankProgress) -> Step | None:
    """The step since which the loss is NaN or Inf; None while it is a number."""
    first = None
    for step in reversed(voice.steps):
        if step.loss is None:
            continue
        if math.isfinite(step.loss):
            break
        first = step
    return first


def _first(told: list[tuple[Step, RankProgress]]) -> FirstNan:
    step, voice = min(told, key=lambda each: (each[0].step, each[0].at))
    ranks = {each.rank for at, each in told if at.step == step.step}
    text = f"the loss is {step.loss} since step {step.step}"
    if len(ranks) > 1:
        text += f", on {len(ranks)} ranks at once"
    return FirstNan(voice, Sign(NAN_LOSS, "critical", text, step=step.step), len(ranks) == 1)
