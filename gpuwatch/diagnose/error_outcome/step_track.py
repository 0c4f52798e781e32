"""The steps that one rank logged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct


class Mark(NamedTuple):
    """One logged step: its number, time, byte offset in the file, and whether its values are finite."""

    step: int
    at: float | None
    """Unix seconds on our clock; None: the line carries no time."""
    offset: int | None
    """Offset of the step's line in the file (bytes)."""
    finite: bool = True
    """False: the loss or gradient norm of the step is NaN or Inf."""


class StepTrack(Struct, frozen=True):
    """The steps that one rank logged in one file, in the order of the file."""

    node: str | None
    file: str
    rank: int | None
    job: str | None
    marks: Sequence[Mark]
    total_steps: int | None = None
    alone: bool = True
    """No other rank is known to write to the file."""
    per_epoch: bool = False
    """Steps start again with every epoch."""
    epoch: int | None = None
    """The epoch of the newest step, where steps start again with every epoch."""

    @property
    def complete(self) -> bool:
        """Return True if the announced last step was reached."""
        return bool(self.marks) and not self.per_epoch and reached(self.marks[-1].step, self.total_steps)


def reached(step: int, total: int | None) -> bool:
    """Return True if `step` is the last one of `total` (counted from 0 or from 1) or beyond.

    False if `total` is None or 0.
    """
    return total is not None and total > 0 and step >= total - 1


def begins_anew(marks: Sequence[Mark]) -> bool:
    """Return True if the step number falls somewhere: another process or attempt logged the later steps."""
    return any(later.step < before.step for before, later in pairwise(marks))
