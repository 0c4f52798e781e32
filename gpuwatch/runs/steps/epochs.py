"""Reads the epochs that a log announces: first and highest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

EPOCH_OF = re.compile(r"(?i)\bepochs?[ :=#\[(]{1,3}(\d{1,6}) ?(?:/|of) ?(\d{1,6})\b")


class EpochSpan(NamedTuple):
    """The epochs that a log announces with one total."""

    first: int
    last: int
    """The highest epoch."""
    total: int

    @property
    def short(self) -> bool:
        """True if an announced epoch is missing; a loop whose first known epoch is 0 counts from 0."""
        return self.last + (self.first == 0) < self.total


def epochs_in(lines: Iterable[str]) -> EpochSpan | None:
    """Return the span of the epochs with the total that the last one states; None: no line names any."""
    naming = [line for line in lines if "poch" in line.lower()]
    named = [(int(found[1]), int(found[2])) for line in naming for found in EPOCH_OF.finditer(line)]
    if not named:
        return None
    total = named[-1][1]
    numbers = [epoch for epoch, of in named if of == total]
    return EpochSpan(numbers[0], max(numbers), total)
