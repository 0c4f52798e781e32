"""What a busy GPU draws, against what it would draw if it computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from gpuwatch.diagnose.hang.rank_signs import RankSigns

BUSY_PCT = 95.0
POWER_SHARE = 0.5
"""A GPU that waits in a collective draws under half of what it draws in training (DESIGN section 6)."""
TENSOR_PCT = 1.0
LIMIT_SHARE = 1 / 3
"""Where no power of its own is known: the same share of the limit (A100 of 400 W: 70 to 100 W while it waits,
NVIDIA/nccl#968, 250 W and more while it trains)."""


def spins(rank: RankSigns, usual_w: Mapping[str, float]) -> bool:
    """Whether a GPU spins: busy, and under half of its usual power or without tensor work."""
    if rank.busy_pct is None or rank.busy_pct < BUSY_PCT:
        return False
    usual = usual_w.get(rank.uuid or "")
    starved = rank.power_w is not None and usual is not None and rank.power_w < POWER_SHARE * usual
    return starved or (rank.tensor_pct is not None and rank.tensor_pct <= TENSOR_PCT)


def busy_with_what(rank: RankSigns, usual_w: Mapping[str, float]) -> bool:
    """Fully busy, and nothing shows whether it waits."""
    busy = rank.busy_pct is not None and rank.busy_pct >= BUSY_PCT
    return busy and rank.tensor_pct is None and (rank.uuid or "") not in usual_w


def assumed_power(ranks: Sequence[RankSigns], usual_w: Mapping[str, float]) -> dict[str, float]:
    """UUID -> watts that a GPU would draw in training, where neither its own power nor tensor work is known.

    The one GPU of the job that draws over twice the median of the busy ones shows it; else it follows from
    the GPU's limit, and only for those that draw under `LIMIT_SHARE` of it. GPUs that draw more are left
    out: they may compute.
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
