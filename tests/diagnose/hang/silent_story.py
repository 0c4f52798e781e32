"""Signs of the ranks of a job, and a watch of hangs that sees them tick by tick."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from msgspec.structs import replace

from gpuwatch.diagnose.hang.hang_watch import CHECK_EVERY_S, HangWatch, Usual
from gpuwatch.diagnose.hang.rank_signs import RankSigns
from gpuwatch.hosts.plan import Thresholds

USUAL_W = 600.0
WALL = 1_800_000_000.0


def ranks_of(count: int, **signs: float | str | None) -> list[RankSigns]:
    """A job of ranks on nodes of eight GPUs, all alike."""
    return [
        replace(
            RankSigns(
                n, f"gpu-{n // 8:03d}", "job-1", 4000 + n, n % 8, f"GPU-{n}", wrote_s=1.0, stepped_s=1.0
            ),
            **signs,
        )
        for n in range(count)
    ]


def usual(ranks: Sequence[RankSigns], _quiet_s: float) -> dict[str, float]:
    return {rank.uuid: USUAL_W for rank in ranks if rank.uuid}


SPIN = {"busy_pct": 100.0, "power_w": 190.0, "tensor_pct": 0.0, "wrote_s": 95.0, "stepped_s": 95.0}
WORK = {"busy_pct": 99.0, "power_w": 610.0, "tensor_pct": 41.0, "wrote_s": 1.0, "stepped_s": 1.0}


@cache
def aged(ranks: tuple[RankSigns, ...], age: float, steps: bool) -> list[RankSigns]:
    return [replace(rank, wrote_s=age, stepped_s=age if steps else None) for rank in ranks]


class Story:
    """A watch that is fed tick by tick."""

    def __init__(self, usual: Usual = usual) -> None:
        self.watch = HangWatch(Thresholds())
        self.now = 1000.0
        self._usual = usual

    def tick(self, ranks: list[RankSigns]) -> None:
        self.now += CHECK_EVERY_S
        self.watch.see({"job-1": ranks}, self._usual, self.now, WALL + self.now)

    def train(self, count: int, seconds: float, **signs: float | None) -> None:
        for _ in range(int(seconds / CHECK_EVERY_S)):
            self.tick(ranks_of(count, **{**WORK, **signs}))

    def silent(self, ranks: list[RankSigns], seconds: float, steps: bool = True) -> None:
        for tick in range(1, int(seconds / CHECK_EVERY_S) + 1):
            self.tick(aged(tuple(ranks), tick * CHECK_EVERY_S, steps))

    @property
    def reported(self) -> list[str]:
        return [alert.text for alert in self.watch.alerts.values() if alert.state == "firing"]
