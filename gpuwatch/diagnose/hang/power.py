"""Compare the power of a busy GPU with its power in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from gpuwatch.diagnose.hang.rank_signs import RankSigns

BUSY_PCT = 95.0
POWER_SHARE = 0.5
"""Share of its training power below which a busy GPU waits in a collective."""
TENSOR_PCT = 1.0
LIMIT_SHARE = 1 / 3
"""Share of the power limit below which a GPU waits, if its power in training is unknown.

An A100 of 400 W draws 70 to 100 W while it waits (NVIDIA/nccl#968), 250 W and more in training.
"""


def spins(rank: RankSigns, usual_w: Mapping[str, float]) -> bool:
    """Return True if a GPU is busy, and draws below half of its training power or has no tensor activity.

    `usual_w`: UUID -> watts in training.
    """
    if rank.busy_pct is None or rank.busy_pct < BUSY_PCT:
        return False
    usual = usual_w.get(rank.uuid or "")
    starved = rank.power_w is not None and usual is not None and rank.power_w < POWER_SHARE * usual
    return starved or (rank.tensor_pct is not None and rank.tensor_pct <= TENSOR_PCT)


def busy_with_what(rank: RankSigns, usual_w: Mapping[str, float]) -> bool:
    """Return True if a GPU is fully busy and neither tensor activity nor its training power is known."""
    busy = rank.busy_pct is not None and rank.busy_pct >= BUSY_PCT
    return busy and rank.tensor_pct is None and (rank.uuid or "") not in usual_w


def assumed_power(ranks: Sequence[RankSigns], usual_w: Mapping[str, float]) -> dict[str, float]:
    """Return UUID -> assumed watts in training, for busy GPUs of which nothing shows what they do.

    If one of them draws over twice their median, its power is assumed for all. Otherwise two thirds of the
    GPU's power limit are, and only for GPUs below `LIMIT_SHARE` of it: those above may compute.
    """
    blind = [rank for rank in ranks if busy_with_what(rank, usual_w) and rank.power_w is not None]
    drawn = sorted(rank.power_w for rank in blind if rank.power_w is not None)
    if len(drawn) > 2 and POWER_SHARE * drawn[-1] > median(drawn):
        return {rank.uuid or "": drawn[-1] for rank in blind}
    return {
        rank.uuid or "": rank.power_limit_w * LIMIT_SHARE / POWER_SHARE
        for rank in blind
        if rank.power_w is not None
        and rank.power_limit_w is not None
        and rank.power_w < LIMIT_SHARE * rank.power_limit_w
    }
