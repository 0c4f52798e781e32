"""Computes rows of the tables from the times of the ranks, by nccl-tests' formulas. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median, pstdev

from gpuwatch.probe.probe_request import Collective
from gpuwatch.probe.results import CollectiveResult

GB = 1e9
WAITS_ALIKE: frozenset[Collective] = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
"""Collectives in which each rank waits for all others; in a broadcast, the root finishes first by design."""
MIN_RATIO = 0.5
"""The suspect spends less than this fraction of the other ranks' median time inside the collective."""
MIN_GAP_S = 0.001
"""Minimum difference to that median in seconds: a smaller one is scheduling noise."""
ALIKE_RATIO = 0.7
"""The next rank must spend at least this fraction of the median.

If two ranks wait little, neither is a single suspect.
"""


def collective_row(
    op: Collective, size: int, times_s: Mapping[int, Sequence[float]], nodes: int, correct: bool | None
) -> CollectiveResult:
    """Return a row of the table: one collective at one size; only an error if no rank returned a time.

    Args:
        op: The collective.
        size: Bytes of the whole buffer.
        times_s: Rank -> its timed iterations.
        nodes: Number of nodes.
        correct: Whether the checked result was right; None: not checked.
    """
    ranks = len(times_s)
    slowest = slowest_of(list(times_s.values()))
    if not slowest:
        return CollectiveResult(op, size, correct=correct, error="the ranks returned no times")
    p50 = nearest_rank(slowest, 50)
    algbw = size / p50 / GB
    busbw = algbw * busbw_factor(op, ranks)
    share = nic_share(op, ranks, nodes)
    return CollectiveResult(
        op,
        size,
        p50_s=p50,
        min_s=min(slowest),
        p99_s=nearest_rank(slowest, 99),
        cv=pstdev(slowest) / fmean(slowest) if len(slowest) > 1 else None,
        algbw_gb_per_s=algbw,
        busbw_gb_per_s=busbw,
        nic_gb_per_s=None if share is None else busbw * share,
        correct=correct,
        least_waiting=least_waiting(op, times_s),
    )


def busbw_factor(op: Collective, ranks: int) -> float:
    """Return the ratio of busbw to algbw by nccl-tests doc/PERFORMANCE.md; the size is the whole buffer."""
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if op in {"all_gather", "reduce_scatter", "all_to_all"}:
        return (ranks - 1) / ranks
    return 1.0


def nic_share(op: Collective, ranks: int, nodes: int) -> float | None:
    """Return the fraction of busbw that a rank's own NIC carries: (nodes - 1) / (ranks - 1) in general.

    For all_to_all, the fraction sent to other nodes. None if it differs between ranks, and on one node.
    """
    if nodes < 2 or ranks < 2 or op in {"broadcast", "send_recv"}:
        return None
    if op == "all_to_all":
        return ranks * (nodes - 1) / nodes / (ranks - 1)
    return (nodes - 1) / (ranks - 1)


def least_waiting(op: Collective, times_s: Mapping[int, Sequence[float]]) -> int | None:
    """Return the rank that the others waited for: it alone waits clearly less; else None.

    None also for a broadcast, for send_recv, and for fewer than 3 ranks.
    """
    if op not in WAITS_ALIKE or len(times_s) < 3 or not all(times_s.values()):
        return None
    inside = {rank: median(times) for rank, times in times_s.items()}
    order = sorted(inside, key=lambda rank: inside[rank])
    first, second = inside[order[0]], inside[order[1]]
    middle = median([inside[rank] for rank in order[1:]])
    clear = first < MIN_RATIO * middle and middle - first > MIN_GAP_S and second >= ALIKE_RATIO * middle
    return order[0] if clear else None


def slowest_of(times_s: Sequence[Sequence[float]]) -> list[float]:
    """Return for every iteration the time of the slowest rank; impossible times are dropped."""
    count = min((len(each) for each in times_s), default=0)
    worst = [max(each[at] for each in times_s) for at in range(count)]
    return [time_s for time_s in worst if math.isfinite(time_s) and time_s > 0]


def nearest_rank(values: Sequence[float], percent: float) -> float:
    """Return the percentile by nearest rank: one of the values; p99 is the maximum of fewer than 100."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]
