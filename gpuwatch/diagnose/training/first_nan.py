"""Finds the rank whose loss was NaN first; shared gradients then spread the NaN to all ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from gpuwatch.diagnose.training.symptom import Sign
from gpuwatch.fleet.logs.logged_steps import LoggedStep
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.rules.model import rule_ids

IN_A_ROW = 3


class Onset(Struct, frozen=True):
    """The start of a NaN, between two logged steps of one writer.

    The two may not be consecutive: some logs have only every tenth step.
    """

    writer: RankProgress
    step: LoggedStep
    """The first step whose loss is not finite."""
    before: int | None
    """The last logged step with a finite loss; None: unknown."""

    @property
    def exact(self) -> bool:
        """Return True if the finite step and the first NaN step are consecutive."""
        return self.before == self.step.step - 1

    def may_precede(self, other: Onset) -> bool:
        """Return True if this NaN may have begun at the same time as `other` or earlier."""
        return self.before is None or self.before < other.step.step


class FirstNan(Struct, frozen=True):
    """The earliest NaN of a job, and the log writer that reports it."""

    writer: RankProgress
    sign: Sign
    alone: bool
    """False: the NaN may have begun on other ranks too, so no rank is named."""
    at: float
    """When the first such step was written (monotonic); -inf: unknown."""


def first_nans(writers: Iterable[RankProgress]) -> dict[str | None, FirstNan]:
    """Return job -> its earliest NaN or Inf loss, by step since clocks differ.

    Jobs without one are left out.
    """
    jobs: dict[str | None, list[Onset]] = {}
    for writer in writers:
        began = onset(writer)
        if began is not None:
            jobs.setdefault(writer.job, []).append(began)
    return {job: _first(reported) for job, reported in jobs.items()}


def onset(writer: RankProgress) -> Onset | None:
    """Return when the loss became NaN or Inf; None if the newest loss is finite.

    If an earlier loss was NaN and recovered (an empty batch), only IN_A_ROW such steps in a row count.
    """
    losses = [step for step in writer.curve() if step.loss is not None]
    since = len(losses)
    while since and not _is_number(losses[since - 1]):
        since -= 1
    if since == len(losses):
        return None
    if len(losses) - since < IN_A_ROW and not all(map(_is_number, losses[:since])):
        return None
    return Onset(writer, losses[since], losses[since - 1].step if since else None)


def _is_number(step: LoggedStep) -> bool:
    return step.loss is not None and math.isfinite(step.loss)


def _first(reported: list[Onset]) -> FirstNan:
    first = min(reported, key=lambda each: (each.step.step, each.step.at))
    ranks = {first.writer.rank, *(each.writer.rank for each in reported if each.may_precede(first))}
    ranks.discard(None)  # a log of the whole job repeats what a rank's own states
    text = f"the loss has been {first.step.loss} since step {first.step.step}"
    if not first.exact:
        known = "" if first.before is None else f" (a number at step {first.before})"
        text += f" at the latest{known}"
    if len(ranks) > 1:
        text += f"; {len(ranks)} ranks report it; which was first is unknown"
    sign = Sign(rule_ids.NUM_NAN_LOSS, "critical", text, step=first.step.step)
    return FirstNan(first.writer, sign, len(ranks) <= 1, first.step.at)
