"""Outliers: ranks that differ from their peers in one figure, and the thresholds for that.

The thresholds are the settings `peer_*` of `hosts.plan.Thresholds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Literal, TypeAlias

from msgspec import Struct

from gpuwatch.diagnose.health.peer_comparison import MIN_PEERS
from gpuwatch.diagnose.straggler.gpu_load import GpuLoad

Sign: TypeAlias = Literal[
    "throttled", "time", "clock", "busy", "works_alone", "last", "pcie", "spins", "nvlink_rate", "pcie_rate"
]
"""The figure in which a rank differs; in the first six kinds, the other ranks wait for it."""

MAX_OUTLIER_SHARE = 0.125
"""Largest share of the ranks (or one rank) that can be outliers; more have another role in the job.

One node of eight is such a share.
"""
NEXT_DISTANCE = 0.75
"""Least distance of an outlier from the next rank, as a share of its distance to the median.

Ranks with other work, such as pipeline stages, come in groups that lie close together.
"""


class Outlier(Struct, frozen=True):
    """A rank that stands out now in one figure: its value, the group's median, and the cost for the job."""

    sign: Sign
    rank: int
    peers: int
    """Number of the other ranks in the comparison."""
    figure: str
    """Name of the compared figure."""
    own: str
    """Its own value, with unit."""
    usual: str
    """The group's median."""
    what: str
    """What the rank does, as text after `one of 64 ranks`."""
    cost: float | None = None
    """Share of the job's time that the outlier costs; None: unknown."""
    cause: str = ""
    """The reason, if the figure itself shows it."""
    load: GpuLoad | None = None
    alike: int = 1
    """Number of ranks that stand out in the same way."""

    @property
    def evidence(self) -> str:
        """Return the evidence on an outlier in one line: its value, the median, and the number of peers."""
        return f"{self.figure} {self.own}, median of its {self.peers} peers {self.usual}"


def max_outliers(group_size: int) -> int:
    """Return the most ranks of a group that can be outliers; if more differ, they have other work."""
    return max(1, int(MAX_OUTLIER_SHARE * group_size))


def equally_busy(group: Sequence[GpuLoad], least_pct: float, apart_pct: float) -> list[GpuLoad]:
    """Return the ranks that are at least `least_pct` busy and within `apart_pct` (points) of their median.

    Empty if they are too few to compare.
    """
    known = [(each, pct) for each in group if (pct := each.busy_pct) is not None and pct >= least_pct]
    if len(known) < MIN_PEERS:
        return []
    usual = median(pct for _, pct in known)
    return [each for each, pct in known if abs(pct - usual) <= apart_pct]


def lowest(
    group: Sequence[GpuLoad], read: Callable[[GpuLoad], float | None], limit: float
) -> tuple[GpuLoad, float, float] | None:
    """Return the rank with the lowest value, its value and the median; None if it does not stand out.

    It stands out if it is below `limit` (a share) of the median and clearly below the next value, among
    MIN_PEERS ranks or more.
    """
    known = sorted((value, number) for number, each in enumerate(group) if (value := read(each)) is not None)
    if len(known) < MIN_PEERS:
        return None
    (own, number), (following, _) = known[:2]
    usual = median(value for value, _ in known)
    return (group[number], own, usual) if own < limit * usual and own < NEXT_DISTANCE * following else None
