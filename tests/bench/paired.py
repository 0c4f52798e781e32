"""Two measurements taken in turns: the change from one to the other, and how well the pairs tell it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median


@dataclass(frozen=True)
class Comparison:
    """The median change over pairs, with the bounds that hold the true median in 95 of 100 cases."""

    change: float
    """0.01: the second measurement is 1 % larger."""
    low: float
    high: float
    pairs: int

    @property
    def text(self) -> str:
        """The change with its bounds."""
        return f"{self.change:+.3%}, 95 %: {self.low:+.3%} to {self.high:+.3%} ({self.pairs} pairs)"

    def over(self, count: int) -> Comparison:
        """The change by one of `count` equal causes that were measured together."""
        return replace(self, change=self.change / count, low=self.low / count, high=self.high / count)

    def is_at_most(self, limit: float) -> bool | None:
        """True or False where both bounds are on one side of the limit; None: these pairs cannot tell."""
        if self.high <= limit:
            return True
        return False if self.low > limit else None


def compared(pairs: Sequence[tuple[float, float]]) -> Comparison:
    """The change from the first to the second measurement of each pair.

    The bounds are order statistics of the ratios (the sign test): they suppose nothing of the noise but that
    pairs do not depend on each other.

    Raises:
        ValueError: fewer than six pairs, of which no bounds follow.
    """
    if len(pairs) < 6:
        raise ValueError("six pairs at least")
    changes = sorted(after / before - 1 for before, after in pairs)
    out = outside(len(changes))
    return Comparison(median(changes), changes[out], changes[-1 - out], len(changes))


def outside(count: int, risk: float = 0.05) -> int:
    """How many of `count` sorted values lie below (and above) bounds that miss the median at this risk."""
    cumulative, out = 0.0, -1
    while out < count // 2:
        cumulative += math.comb(count, out + 1) / 2.0**count
        if cumulative > risk / 2:
            break
        out += 1
    return max(0, out)
