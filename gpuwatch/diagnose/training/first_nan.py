"""The rank whose loss was NaN first: ranks share gradients, so that a NaN spreads to all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gpuwatch.diagnose.training.symptom import Sign
from gpuwatch.fleet.logs.progress import LoggedStep, RankProgress

NAN_LOSS = "num.nan_loss"
IN_A_ROW = 3


@dataclass(frozen=True)
class Onset:
    """Between two reported steps of one writer.

    Fast steps, or those of which each tenth is printed, have gaps.
    """

    writer: RankProgress
    step: LoggedStep
    """The first without a number."""
    before: int | None
    """The last reported step with one; None: none is known."""

    @property
    def exact(self) -> bool:
        """Whether no step lies between the two."""
        return self.before == self.step.step - 1

    def may_precede(self, other: Onset) -> bool:
        """Whether it may have begun no later than the other one surely had."""
        return self.before is None or self.before < other.step.step


@dataclass(frozen=True)
class FirstNan:
    """The writer of a job that reported it at the earliest step."""

    writer: RankProgress
    sign: Sign
    alone: bool
    """False: it may have begun on other ranks, so that it does not lead to one of them."""
    at: float
    """When the first step without a number was written (monotonic); -inf: not known."""


def first_nans(writers: Iterable[RankProgress]) -> dict[str | None, FirstNan]:
    """The first rank of each job whose loss is NaN now; compared by step, as clocks and logs lag."""
    jobs: dict[str | None, list[Onset]] = {}
    for writer in writers:
        began = onset(writer)
        if began is not None:
            jobs.setdefault(writer.job, []).append(began)
    return {job: _first(reported) for job, reported in jobs.items()}


def onset(writer: RankProgress) -> Onset | None:
    """When the loss became NaN or Inf; None while it is a number.

    Where it was none before and became one again (an empty batch), only several in a row are reported.
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
    text = f"the loss is {first.step.loss} since step {first.step.step}"
    if not first.exact:
        known = "" if first.before is None else f" (a number at step {first.before})"
        text += f" at the latest{known}"
    if len(ranks) > 1:
        text += f"; {len(ranks)} ranks tell it, none of them surely first"
    sign = Sign(NAN_LOSS, "critical", text, step=first.step.step)
    return FirstNan(first.writer, sign, len(ranks) <= 1, first.step.at)
