"""Nodes of eight GPUs on which jobs train, evaluate, save, serve, begin and end, with realistic noise.

What the GPUs show is worked out from what each rank does at the moment: it works, spins in a collective,
waits for its host, or has nothing to do. The figures are those of public training logs: an H100 draws 600 W
of 700 in training and 130 to 200 W spinning, equal GPUs differ by a tenth, racks by several degrees.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from msgspec import structs

from gpuwatch import wire
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, ClockReading, Content, LinkStatus

NODES, GPUS = 8, 8
"""Nodes unless a test names more, and GPUs of each."""
RACKS = 4
TICK_S = 5.0
COOL_C = 3.0
"""A healthy GPU is not warmer than its place explains by more: none comes near its slowdown point."""
EPOCH = 1_790_000_000.0
DAY_S = 86_400.0
Doing: TypeAlias = Literal["work", "reduce", "spin", "host", "idle"]
Odd: TypeAlias = Callable[[wire.GpuSample], wire.GpuSample]


@dataclass(frozen=True)
class Model:
    """A GPU model: watts in training and at rest, MHz under load and at most."""

    name: str
    train_w: float
    rest_w: float
    loaded_mhz: int
    top_mhz: int
    pcie_gen: int
    nvlinks: int


H100 = Model("NVIDIA H100 80GB HBM3", 610.0, 72.0, 1755, 1980, 5, 18)
A100 = Model("NVIDIA A100-SXM4-80GB", 355.0, 55.0, 1350, 1410, 4, 12)


@dataclass
class Place:
    """One GPU, with what makes it differ from its equals."""

    node: int
    index: int
    model: Model
    watts: float
    clock: float
    degrees: float

    @property
    def uuid(self) -> str:
        return f"GPU-{self.node}-{self.index}"


@dataclass
class Job:
    """One job and what its ranks do now; the phases come from outside."""

    name: str
    places: Sequence[Place]
    dialect: Literal["one", "sparse", "all", "none"] = "one"
    """Who tells steps: rank 0 each one, rank 0 each 20th, all ranks with their own timers, nobody."""
    serves: bool = False
    step_s: float = 3.0
    step: int = 0
    stepping: bool = True
    doing: Doing = "work"
    odd_rank: int | None = None
    odd_doing: Doing = "work"
    """What one rank does instead."""
    done: float = 0.0
    """Fractions of the step under way."""
    slower: float = 1.0
    """Of the loader's hiccup: this step takes so many times as long."""
    timers: dict[int, dict[str, float]] = field(default_factory=dict)
    """Rank -> timer -> factor: what a test makes slow."""

    def doing_of(self, rank: int) -> Doing:
        return self.odd_doing if rank == self.odd_rank else self.doing

    def phase(self, doing: Doing, *, steps: bool, odd: tuple[int, Doing] | None = None) -> None:
        """What all ranks do from now on, and one of them instead."""
        self.doing, self.stepping = doing, steps
        self.odd_rank, self.odd_doing = odd or (None, "work")


class Cluster:
    """The fleet, and a clock that `tick` moves."""

    def __init__(
        self, seed: int = 7, models: Sequence[Model] = (H100,) * NODES, tick_s: float = TICK_S
    ) -> None:
        self.dice = random.Random(seed)
        self.tick_s, self.now = tick_s, 10_000.0
        self.nodes = len(models)
        racks = [n // 2 % RACKS for n in range(self.nodes)]
        specs = tuple(NodeSpec(f"gpu-{n:03d}", labels={"rack": f"r{rack}"}) for n, rack in enumerate(racks))
        self.fleet = Fleet(Plan(specs, interval_s=tick_s))
        spread = self.dice.gauss

        def warm(rack: int) -> float:
            return 3.0 * rack + min(spread(0, 2), COOL_C)

        self.places = [
            Place(n, g, models[n], spread(1, 0.03), spread(1, 0.01), warm(racks[n]) + g % 4)
            for n in range(self.nodes)
            for g in range(GPUS)
        ]
        self.jobs: list[Job] = []
        self.odd: dict[str, Odd] = {}
        """UUID -> what a test makes of its sample."""
        self._listed: object = None
        for node in range(self.nodes):
            self._greet(node)

    @property
    def wall(self) -> float:
        return EPOCH + self.now

    def report(self, node: int, what: Content) -> None:
        self.fleet.apply(Arrival(f"gpu-{node:03d}", self.now, what))

    def tick(self) -> None:
        """One tick passes: steps are made and reported, every node sends its sample."""
        self.now += self.tick_s
        for job in self.jobs:
            self._steps(job)
        self._list()
        working = {
            place.uuid: job.doing_of(rank) for job in self.jobs for rank, place in enumerate(job.places)
        }
        sways = [self.dice.random() for _ in range(self.nodes)]
        for node in range(self.nodes):
            own = self.places[node * GPUS : (node + 1) * GPUS]
            samples = [self._sample(place, working.get(place.uuid, "idle"), sways[node]) for place in own]
            self.report(node, wire.Sample(t=self.wall, seq=1, gpus=samples))

    def skip(self, seconds: float) -> None:
        """Time passes that nobody looks at; jobs go on."""
        self.now += seconds
        for job in self.jobs:
            job.step += int(seconds / job.step_s) if job.stepping else 0

    # ------------------------------------------------------------------- GPUs

    def _sample(self, place: Place, doing: Doing, sway: float) -> wire.GpuSample:
        """A sample falls into some part of the step: on one node at about the same one."""
        spread = self.dice.gauss
        model = place.model
        if doing == "work" and sway < 0.2:
            doing = "reduce"
        busy, share, mhz, moves = {
            "work": (98.5, 1.0, model.loaded_mhz * place.clock * spread(1, 0.015), 1.0),
            "reduce": (99.0, 0.62, model.top_mhz * 0.97, 2.2),
            "spin": (100.0, 0.27, model.top_mhz * 1.0, 0.05),
            "host": (self.dice.uniform(0, 30), 0.22, model.top_mhz * 0.98, 0.3),
            "idle": (0.0, 0.0, 345.0, 0.0),
        }[doing]
        day = math.sin(2 * math.pi * (self.now % DAY_S) / DAY_S)
        warm = 34 + place.degrees + 4 * day + 26 * share
        watts = model.rest_w + (model.train_w - model.rest_w) * share * place.watts * spread(1, 0.03)
        hot = max(0.0, warm - 68) * 0.004  # a warm rack clocks a little lower under its power limit
        capped = doing == "work" and watts > 0.97 * model.train_w
        t = self.wall
        fast = wire.GpuFast(
            t=t,
            utilization_pct=min(100.0, max(0.0, spread(busy, 1.0))) if busy else 0.0,
            memory_used_bytes=70 << 30 if doing != "idle" else 0,
            memory_total_bytes=80 << 30,
            temperature_c=round(spread(warm, 0.5)),
            power_w=watts,
            sm_clock_mhz=int(min(mhz * (1 - hot), model.top_mhz)) // 15 * 15,
            throttle=["power_cap"] if capped else [],
            throttle_pct={"power_cap": 40.0 if capped else 0.0, "sw_thermal": 0.0, "hw_thermal": 0.0},
            pcie_rx_bps=1.5e9 * moves * spread(1, 0.2),
            pcie_tx_bps=0.9e9 * moves * spread(1, 0.2),
            nvlink_rx_bps=6e10 * moves * spread(1, 0.08),
            nvlink_tx_bps=6e10 * moves * spread(1, 0.08),
            tensor_activity_pct=40.0 if doing == "work" else 8.0 if doing == "reduce" else 0.0,
        )
        gen = model.pcie_gen if doing != "idle" else 1
        medium = wire.GpuMedium(t=t, power_limit_w=model.train_w * 1.15, pcie_gen=gen, pcie_width=16)
        errors = {"crc": 0, "replay": 0, "recovery": 0}
        slow = wire.GpuSlow(t=t, pcie_replays=0, nvlink_active=model.nvlinks, nvlink_errors=errors)
        sample = wire.GpuSample(place.uuid, fast=fast, medium=medium, slow=slow)
        odd = self.odd.get(place.uuid)
        return sample if odd is None else odd(sample)

    # ------------------------------------------------------------------- jobs

    def _steps(self, job: Job) -> None:
        if not job.stepping or job.serves:
            return
        before = job.step
        drift = 1 + 0.04 * math.sin(2 * math.pi * self.now / DAY_S)
        job.done += self.tick_s / (job.step_s * drift * job.slower * self.dice.gauss(1, 0.01))
        while job.done >= 1:
            job.done, job.step, job.slower = job.done - 1, job.step + 1, 1.0
        if job.step == before or job.dialect == "none":
            return
        if job.dialect == "sparse":
            if job.step // 20 > before // 20:
                self._progress(job, 0, job.step // 20 * 20, {})
        elif job.dialect == "one":
            scaled = {"loss_scale": 65536.0, "skipped": float(job.step // 2000)}
            self._progress(job, 0, job.step, {"step_time_s": job.step_s * self.dice.gauss(1, 0.02), **scaled})
        else:
            for rank in range(len(job.places)):
                self._progress(job, rank, job.step, {"step_time_s": job.step_s * self.dice.gauss(1, 0.01)})

    def _progress(self, job: Job, rank: int, step: int, more: dict[str, float]) -> None:
        spread = self.dice.gauss
        peak = 2.5 if self.dice.random() < 0.004 else 1.0
        fields = {
            "step": float(step),
            "loss": (1.7 + 6.0 * (step + 10) ** -0.3) * spread(1, 0.015),
            "grad_norm": (0.8 + 4 * math.exp(-step / 200)) * math.exp(spread(0, 0.2)) * peak,
            **more,
        }
        place = job.places[rank]
        self.report(
            place.node,
            wire.Progress(
                t=self.wall, seq=2, file=f"/logs/{job.name}/{rank}.log", offset=step * 100, at=self.wall,
                dialect="progress.common", fields={**fields}, rank=rank, rank_from="process", job=job.name,
                phases_s=self._timers(job, rank) if job.dialect == "all" else {},
            ),
        )  # fmt: skip

    def _timers(self, job: Job, rank: int) -> dict[str, float]:
        """Own parts of the step, with a hiccup of the loader now and then; who is slow waits less."""
        spread, factors = self.dice.gauss, job.timers.get(rank, {})
        hiccup = 20.0 if self.dice.random() < 0.01 else 1.0
        shares = {"forward": 0.25, "backward": 0.45, "optimizer": 0.05, "data": 0.02 * hiccup}
        own = {
            name: job.step_s * share * spread(1, 0.03) * factors.get(name, 1.0)
            for name, share in shares.items()
        }
        worst = max((max(each.values()) for each in job.timers.values()), default=1.0)
        waits = max(0.0, 0.2 + (0.3 if worst > 1 and not factors else 0.0) + spread(0, 0.01))
        return {**own, "allreduce": job.step_s * waits}

    def _list(self) -> None:
        """Processes, when anything about them changed, and every 5 s."""
        by_node: dict[int, list[wire.Process]] = {node: [] for node in range(self.nodes)}
        for job in self.jobs:
            for rank, place in enumerate(job.places):
                busy = 3.0 if job.doing_of(rank) == "idle" else 100.0  # who saves or loads computes
                command = "python -m vllm.entrypoints.api_server" if job.serves else "python train.py"
                by_node[place.node].append(
                    wire.Process(
                        pid=1000 + rank, name="python", command=command, state="R", rank=rank,
                        local_rank=place.index, world_size=len(job.places), job=job.name,
                        gpus=[wire.ProcessGpu(place.uuid, 70 << 30)], cpu_pct=busy,
                        logs=[f"/logs/{job.name}/{rank}.log"],
                    )
                )  # fmt: skip
        for node, processes in by_node.items():
            self.report(node, wire.Ranks(t=self.wall, seq=3, processes=processes))

    def _greet(self, node: int) -> None:
        gpus = [
            wire.GpuInfo(
                place.uuid, place.index, place.model.name, f"00000000:{place.index + 16:02X}:00.0",
                temperature_slowdown_c=87, pcie_gen_max=place.model.pcie_gen, pcie_width_max=16,
                nvlink_count=place.model.nvlinks,
            )
            for place in self.places[node * GPUS : (node + 1) * GPUS]
        ]  # fmt: skip
        self.report(node, LinkStatus("live"))
        self.report(node, ClockReading(0.0, 0.01))
        hello = wire.Hello(t=self.wall, seq=0, host=f"gpu-{node:03d}", agent="1", python="3", pid=1,
                           interval_s=self.tick_s, gpus=gpus)  # fmt: skip
        self.report(node, hello)


def changed(tier: Literal["fast", "medium", "slow"] = "fast", **values: object) -> Odd:
    """A fault: other values of a tier."""

    def make(sample: wire.GpuSample) -> wire.GpuSample:
        return structs.replace(sample, **{tier: structs.replace(getattr(sample, tier), **values)})

    return make
