"""One node whose frames went over the wire into a fleet, as the conditions' tests tell it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.health.conditions import gpu_conditions, node_conditions
from gpuwatch.diagnose.model.condition import Condition
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from gpuwatch.link.stream.inbox import Arrival, Content, LinkStatus

Tier: TypeAlias = wire.GpuFast | wire.GpuMedium | wire.GpuSlow
NOW, EPOCH = 1000.0, 1_700_000_000.0
LIMITS = Thresholds()
FINE = wire.GpuFast(
    t=EPOCH, utilization_pct=98, memory_used_bytes=40 << 30, memory_total_bytes=80 << 30, temperature_c=60,
    memory_temperature_c=70, power_w=500.0, throttle=[], throttle_pct={"sw_thermal": 0.0, "hw_thermal": 0.0},
)  # fmt: skip
MEDIUM = wire.GpuMedium(t=EPOCH, power_limit_w=700.0, pcie_gen=5, pcie_width=16)
SLOW = wire.GpuSlow(
    t=EPOCH,
    ecc_uncorrected=0,
    remap_pending=False,
    remap_failed=False,
    nvlink_active=18,
    recovery_action="none",
)
HOST = wire.HostSample(t=EPOCH, cpu_pct=5.0, memory_total_bytes=100, memory_used_bytes=40)


def info(index: int = 0) -> wire.GpuInfo:
    return wire.GpuInfo(
        f"GPU-{index}", index, "H100", temperature_slowdown_c=87, temperature_memory_max_c=95, pcie_gen_max=5,
        pcie_width_max=16, nvlink_count=18,
    )  # fmt: skip


class Story:
    """One node whose frames went over the wire into a fleet."""

    def __init__(self, spec: NodeSpec | None = None, gpus: int = 1, **hello: object) -> None:
        self.spec = spec or NodeSpec("n1")
        self.fleet = Fleet(Plan((self.spec,)))
        self.gpus = [info(index) for index in range(gpus)]
        self.report(NOW - 20, LinkStatus("live"))
        greeting = wire.Hello(
            t=EPOCH - 20, seq=0, host="n1", agent="1", python="3", pid=1, interval_s=1.0, gpus=self.gpus
        )
        self.report(NOW - 20, structs.replace(greeting, **hello))

    @property
    def node(self) -> Node:
        return self.fleet.nodes["n1"]

    @property
    def gpu(self) -> Gpu:
        return self.node.gpus["GPU-0"]

    def report(self, at: float, *what: Content) -> None:
        for each in what:
            reported = wire.decode(wire.encode(each)) if isinstance(each, wire.Frame) else each
            self.fleet.apply(Arrival("n1", at, reported))

    def sample(self, fast: wire.GpuFast = FINE, at: float = NOW, **rest: Tier | None) -> None:
        t = EPOCH + at - NOW
        tiers: dict[str, Tier | None] = {"fast": fast, "medium": MEDIUM, "slow": SLOW, **rest}
        stamped = {name: None if tier is None else structs.replace(tier, t=t) for name, tier in tiers.items()}
        reading = structs.replace(wire.GpuSample("GPU-0"), **stamped)
        self.report(at, wire.Sample(t=t, seq=1, gpus=[reading], host=structs.replace(HOST, t=t)))

    def host(self, host: wire.HostSample) -> None:
        self.report(NOW, wire.Sample(t=EPOCH, seq=2, host=host))

    def of_gpu(self, now: float = NOW) -> list[Condition]:
        return gpu_conditions(self.gpu, self.node, LIMITS, now)

    def of_node(self, now: float = NOW) -> list[Condition]:
        return node_conditions(self.node, LIMITS, now)


def codes(conditions: Sequence[Condition]) -> list[tuple[str, str]]:
    return [(condition.code, condition.severity) for condition in conditions]
