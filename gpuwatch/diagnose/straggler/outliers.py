"""A rank that stands out among its peers by one figure, and what it takes to stand out.

The thresholds are the settings `peer_*` of `hosts.plan.Thresholds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeAlias

from gpuwatch.diagnose.health.peer_comparison import MIN_PEERS
from gpuwatch.diagnose.straggler.gpu_load import GpuLoad

Sign: TypeAlias = Literal[
    "time", "clock", "busy", "works_alone", "last", "pcie", "spins", "nvlink_rate", "pcie_rate"
]
"""By which figure a rank is unlike its peers. For the first five the others wait; the rest is odd."""

MAX_OUTLIER_SHARE = 0.125
"""More outliers than this share (or than one, if that is more) have another part in the job; a node of
eight is one of eight nodes."""
NEXT_DISTANCE = 0.75
"""The one that is unlike all others is that far from the next one, too: ranks with other work (stages of a
pipeline) come in several, and lie close together."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """One rank that stands out now."""

    sign: Sign
    rank: int
    peers: int
    """How many it was compared with."""
    figure: str
    """What was compared."""
    own: str
    """Its own figure, with the unit."""
    usual: str
    """The median over its group."""
    what: str
    """What it does, after `one of 64 ranks`."""
    cost: float | None = None
    """The share of the job's time that it costs; None: unknown."""
    cause: str = ""
    """Where the figure itself states why."""
    load: GpuLoad | None = None
    alike: int = 1
    """So many stand out in the same way."""

    @property
    def evidence(self) -> str:
        """One line with its own figure, the median, and how many peers."""
        return f"{self.figure} {self.own}, median of its {self.peers} peers {self.usual}"


def max_outliers(group_size: int) -> int:
    """The number of ranks of a group that may stand out; if more do, they have other work."""
    return max(1, int(MAX_OUTLIER_SHARE * group_size))


def equally_busy(group: Sequence[GpuLoad], least_pct: float, apart_pct: float) -> list[GpuLoad]:
    """The ranks that are busy for at least `least_pct`, and within `apart_pct` of the median of these.

    Empty when those are too few to be compared.
    """
    known = [(each, pct) for each in group if (pct := each.busy_pct) is not None and pct >= least_pct]
    if len(known) < MIN_PEERS:
        return []
    usual = median(pct for _, pct in known)
    return [each for each, pct in known if abs(pct - usual) <= apart_pct]


def lowest(
    group: Sequence[GpuLoad], read: Callable[[GpuLoad], float | None], limit: float
) -> tuple[GpuLoad, float, float] | None:
    """The one whose value is under `limit` of the median and clearly under the next one's; with both."""
    known = sorted((value, number) for number, each in enumerate(group) if (value := read(each)) is not None)
    if len(known) < MIN_PEERS:
        return None
    (own, number), (following, _) = known[:2]
    usual = median(value for value, _ in known)
    return (group[number], own, usual) if own < limit * usual and own < NEXT_DISTANCE * following else None
