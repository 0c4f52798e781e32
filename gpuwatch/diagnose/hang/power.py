"""Compare the power of a busy GPU with its power in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from gpuwatch.diagnose.hang.rank_signs import RankSigns

BUSY_PCT = 95.0
POWER_SHARE = 0.5
"""A GPU that waits in a collective draws less than half of its power in training."""
TENSOR_PCT = 1.0
LIMIT_SHARE = 1 / 3
"""The limit share that is used where a GPU's power in training is unknown (A100 of 400 W.

70 to 100 W waiting, NVIDIA/nccl#968; 250 W and more in training).
"""


def spins(rank: RankSigns, usual_w: Mapping[str, float]) -> bool:
    """True if a GPU spins: busy, and below half of its training power or without tensor activity."""
    if rank.busy_pct is None or rank.busy_pct < BUSY_PCT:
        return False
    usual = usual_w.get(rank.uuid or "")
    starved = rank.power_w is not None and usual is not None and rank.power_w < POWER_SHARE * usual
    return starved or (rank.tensor_pct is not None and rank.tensor_pct <= TENSOR_PCT)


def busy_with_what(rank: RankSigns, usual_w: Mapping[str, float]) -> bool:
    """True if a GPU is fully busy and nothing shows whether it computes or waits."""
    busy = rank.busy_pct is not None and rank.busy_pct >= BUSY_PCT
    return busy and rank.tensor_pct is None and (rank.uuid or "") not in usual_w


def assumed_power(ranks: Sequence[RankSigns], usual_w: Mapping[str, float]) -> dict[str, float]:
    """UUID -> assumed watts in training, for GPUs whose training power and tensor activity are unknown.

    If one GPU of the job draws over twice the median of the busy ones, its power is assumed for all.
    Otherwise the GPU's limit is used, and only for GPUs below `LIMIT_SHARE` of it: those above may compute.
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
