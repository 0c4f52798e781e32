"""A job of a few nodes with four GPUs each, reported to a fleet frame by frame."""

from __future__ import annotations

from gpuwatch import wire
from gpuwatch.diagnose.training.job_view.build import Received, overview, received_from
from gpuwatch.diagnose.training.job_view.facts import JobFacts
from gpuwatch.diagnose.training.job_view.rank_placement import RankPlacement
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import Model, NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, ClockReading, LinkStatus
from gpuwatch.rules.load import Packs

WALL = 1_800_000_000.0
NOW = 5_000.0
H100 = "NVIDIA H100 80GB HBM3"


class Job:
    """A job of a few nodes with four GPUs each, told to a fleet frame by frame."""

    def __init__(
        self,
        nodes: int = 2,
        model: Model | None = None,
        offset_s: float = 0.0,
        packs: Packs | None = None,
    ) -> None:
        self.names = [f"n{number}" for number in range(nodes)]
        self.fleet = Fleet(Plan(tuple(NodeSpec(name) for name in self.names), model=model), packs)
        self.placement = RankPlacement()
        self.offset_s = offset_s
        self.world = 4 * nodes
        self.dialect = "common"
        for name in self.names:
            gpus = [wire.GpuInfo(f"{name}-{gpu}", gpu, H100) for gpu in range(4)]
            self.put(name, LinkStatus("live"))
            self.put(name, ClockReading(offset_s, 0.001))
            self.put(
                name,
                wire.Hello(t=WALL, seq=0, agent="0", python="3", pid=1, host=name, interval_s=1.0, gpus=gpus),
            )
        self.run()

    def put(self, node: str, what: object, at: float = NOW) -> None:
        self.fleet.apply(Arrival(node, at, what))  # type: ignore[arg-type]

    def run(self, job: str | None = "77", at: float = NOW, leave: int | None = None) -> None:
        """Every rank's process but one's."""
        for number, name in enumerate(self.names):
            processes = [
                wire.Process(
                    pid=100 + gpu, name="python3", rank=4 * number + gpu, world_size=self.world, job=job,
                    gpus=[wire.ProcessGpu(f"{name}-{gpu}")], logs=[f"/logs/{4 * number + gpu}.log"],
                )
                for gpu in range(4)
                if 4 * number + gpu != leave
            ]  # fmt: skip
            self.put(name, wire.Ranks(t=WALL, seq=1, processes=processes), at)

    def gpus(self, at: float = NOW, **odd: wire.GpuFast) -> None:
        """Equal values of all GPUs, but those named by UUID with _ for -."""
        usual = wire.GpuFast(
            t=WALL, memory_used_bytes=70 << 30, memory_total_bytes=80 << 30, sm_clock_mhz=1980, power_w=600.0,
            temperature_c=60.0, throttle_pct={"thermal": 0.0, "power_cap": 2.0},
        )  # fmt: skip
        for name in self.names:
            samples = [
                wire.GpuSample(f"{name}-{gpu}", fast=odd.get(f"{name}_{gpu}", usual)) for gpu in range(4)
            ]
            self.put(name, wire.Sample(t=WALL, seq=2, gpus=samples), at)

    def report(self, rank: int | None, step: int, at: float, **fields: float) -> None:
        node, wall = "n0" if rank is None else self.names[rank // 4], WALL + at - NOW
        reported = wire.Progress(
            t=wall, seq=3, file=f"/logs/{rank}.log", offset=step * 100, at=wall, rank=rank, job="77",
            dialect=f"progress.{self.dialect}", fields={"step": step, **fields},
        )  # fmt: skip
        self.put(node, reported, at)

    def tell_all(self, steps: int, *, every_s: float = 2.0, **fields: float) -> None:
        """All ranks tell the last steps, the newest now."""
        for step in range(1, steps + 1):
            for rank in range(self.world):
                self.report(rank, step, NOW - (steps - step) * every_s, **fields)

    def received(self) -> Received:
        return received_from(self.fleet, self.placement)

    def facts(self, now: float = NOW, job: str | None = "77") -> JobFacts:
        self.placement.refresh(self.fleet)
        parts = overview(self.fleet, self.placement, self.received(), job, now, WALL + now - NOW)
        (facts,) = filter(None, parts)
        return facts
