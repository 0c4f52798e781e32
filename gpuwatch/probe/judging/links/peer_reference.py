"""The reference of links and GPUs: the best tenth of their peers, confirmed by several nodes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

BEST_TENTH = 0.9
ENOUGH_NODES = 3
"""From this number of nodes on, one node can be left out and the others still have peers."""


def best_tenth(values: ArrayLike) -> float:
    """Return the 90th percentile by nearest rank: a rate that one of the links really has.

    One bad node of four affects half of all links, so a median would make the bad ones look normal.
    """
    import numpy as np  # noqa: PLC0415 - the screens are there before numpy is

    array = np.asarray(values, np.float64)
    at = max(0, math.ceil(BEST_TENTH * len(array)) - 1)
    return float(np.partition(array, at)[at])


def confirmed_best_tenth(values: ArrayLike, nodes: ArrayLike) -> float:
    """Return the best tenth, from 3 nodes on without the node that measured most of it, if that is lower.

    Otherwise a node that reports too much would make all honest ones look slow. A link is as fast as the
    slower of its ends, so a rate that only one node reports is confirmed by no other.

    Args:
        values: The rates, at least one.
        nodes: For each of them the node that measured it.
    """
    import numpy as np  # noqa: PLC0415 - the screens are there before numpy is

    array, owners = np.asarray(values, np.float64), np.asarray(nodes)
    best = best_tenth(array)
    if len(np.unique(owners)) < ENOUGH_NODES:
        return best
    leading, counts = np.unique(owners[array >= best], return_counts=True)
    most = leading[counts == counts.max()]
    return min(best, *(best_tenth(array[owners != node]) for node in most))
