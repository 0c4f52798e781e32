"""Training steps as a log reports them, live or from its past."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpuwatch.wire import Progress

CURVES = ("loss", "grad_norm", "tokens_per_s", "samples_per_s")
"""Fields that are kept with each step."""
RANKS_APART = 64
"""Maximum distance in steps between ranks that write one file without their numbers."""
MAX_QUANTITY = 1e18
"""Larger numbers are ignored: no real count or measurement reaches this."""
MAY_BE_ODD = frozenset(("loss", "grad_norm"))


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """One reported training step: number, time, duration, loss, gradient norm and rates."""

    step: int
    at: float
    """Our monotonic clock; -inf: the log has no time, and the step was not seen live."""
    took_s: float | None
    """Seconds per step: as reported, else from the node's times of two steps (frames can arrive late)."""
    loss: float | None = None
    grad_norm: float | None = None
    tokens_per_s: float | None = None
    samples_per_s: float | None = None
    offset: int | None = field(default=None, kw_only=True)
    """The offset in bytes of the step's line in the file; None: not reported."""
    communication_s: float | None = field(default=None, kw_only=True)
    """Seconds of the step spent in communication, by a logged timer."""

    @property
    def is_odd(self) -> bool:
        """Return True if the step's loss is NaN or Inf."""
        return self.loss is not None and not math.isfinite(self.loss)


def is_sane(name: str, value: float) -> bool:
    """Return True if a field's value is plausible; only losses and norms may be NaN, Inf or huge."""
    return name in MAY_BE_ODD or abs(value) < MAX_QUANTITY


def past_steps(reported: Progress, offset_s: float) -> Iterator[LoggedStep]:
    """Yield the plausible steps of a frame's past; `offset_s`: our monotonic clock minus its times."""
    for each in reported.past:
        if not is_sane("step", each.step):
            continue
        at = -math.inf if each.at is None else each.at + offset_s
        yield LoggedStep(
            int(each.step),
            at,
            *[_number(name, getattr(each, name)) for name in ("step_time_s", *CURVES)],
            offset=each.offset,
        )


def _number(name: str, value: float | str | None) -> float | None:
    number = None if value is None else float(value)
    return number if number is not None and is_sane(name, number) else None


def one_way(steps: Iterable[LoggedStep]) -> list[LoggedStep]:
    """Return the steps without those that a restart from an earlier step made obsolete.

    A number right behind a NaN of about the same step is from another rank, which is slightly behind.
    """
    way: list[LoggedStep] = []
    for step in steps:
        if way and 0 <= way[-1].step - step.step < RANKS_APART and way[-1].is_odd and not step.is_odd:
            continue
        while way and way[-1].step >= step.step:
            way.pop()
        way.append(step)
    return way
