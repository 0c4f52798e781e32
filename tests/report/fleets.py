"""Fleets made by hand: frames in, a fleet out, as a session would build it."""

from __future__ import annotations

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, Content, LinkStatus
from gpuwatch.wire import (
    GpuFast,
    GpuInfo,
    GpuMedium,
    GpuSample,
    Hello,
    HostSample,
    LogFile,
    Logs,
    Process,
    ProcessGpu,
    Ranks,
    Sample,
)

GIB = 1 << 30
START = 1_000.0
"""Our monotonic clock when everything arrives."""
NODE_TIME = 1_700_000_000.0
"""The node's clock at the same moment."""


def plan(*names: str, demo: bool = False) -> Plan:
    """A plan of nodes that differ by name only."""
    nodes = tuple(NodeSpec(name=name, link="demo" if demo else "ssh") for name in names)
    return Plan(nodes=nodes, source="hosts.yaml")


def info(index: int) -> GpuInfo:
    """A GPU of 80 GiB."""
    return GpuInfo(
        uuid=f"GPU-{index:04}",
        index=index,
        name="NVIDIA H100 80GB HBM3",
        memory_total_bytes=80 * GIB,
        temperature_slowdown_c=87,
    )


def fast(**changes: object) -> GpuFast:
    """A training GPU's second."""
    values: dict[str, object] = {
        "t": NODE_TIME,
        "utilization_pct": 98.0,
        "memory_utilization_pct": 44.0,
        "memory_used_bytes": 72 * GIB,
        "memory_total_bytes": 80 * GIB,
        "temperature_c": 61.0,
        "power_w": 640.4,
        "sm_clock_mhz": 1980,
        "pcie_rx_bps": 2_500_000.0,
        "throttle_pct": {"power_cap": 12.0, "thermal": 0.0},
        **changes,
    }
    return GpuFast(**values)  # type: ignore[arg-type]


def medium() -> GpuMedium:
    """A training GPU's five seconds."""
    return GpuMedium(t=NODE_TIME, memory_clock_mhz=2619, power_limit_w=700.0, encoder_pct=0.0)


def process(pid: int, gpu: int, rank: int | None = None, **changes: object) -> Process:
    """A rank on one GPU."""
    values: dict[str, object] = {
        "pid": pid,
        "name": "python",
        "user": "alice",
        "rank": rank,
        "gpus": [ProcessGpu(uuid=f"GPU-{gpu:04}", memory_bytes=71 * GIB)],
        **changes,
    }
    return Process(**values)  # type: ignore[arg-type]


def hello(gpus: int = 2, **changes: object) -> Hello:
    """The first frame of a node."""
    values: dict[str, object] = {
        "t": NODE_TIME,
        "seq": 0,
        "host": "gpu-001.cluster",
        "agent": "0.1.0",
        "python": "3.9.18",
        "pid": 4,
        "interval_s": 1.0,
        "gpus": [info(index) for index in range(gpus)],
        "driver": "570.86.15",
        "kernel_log": "/dev/kmsg",
        **changes,
    }
    return Hello(**values)  # type: ignore[arg-type]


def sample(*gpus: GpuSample, at: float = START) -> Sample:
    """One tick, `at` our clock."""
    t = NODE_TIME + at - START
    host = HostSample(
        t=t, cpu_pct=34.0, load_1m=12.1, memory_total_bytes=100 * GIB, memory_used_bytes=45 * GIB
    )
    return Sample(t=t, seq=1, gpus=list(gpus), host=host)


def reading(index: int, **changes: object) -> GpuSample:
    """A GPU that answers."""
    return GpuSample(uuid=f"GPU-{index:04}", fast=fast(**changes), medium=medium())


def feed(fleet: Fleet, node: str, *what: Content, at: float = START) -> None:
    """Let content arrive."""
    for content in what:
        fleet.apply(Arrival(node, at, content))


def rank_logs(count: int) -> list[LogFile]:
    """A searched log of each rank."""
    return [LogFile(f"/r{n}.log", size=10, searched_to=10, ranks=[n]) for n in range(count)]


def healthy_fleet(*names: str, gpus: int = 2, demo: bool = False) -> Fleet:
    """Nodes whose GPUs all train."""
    fleet = Fleet(plan(*(names or ("gpu-001",)), demo=demo))
    for name in fleet.nodes:
        ranks = Ranks(t=NODE_TIME, seq=2, processes=[process(100 + n, n, rank=n) for n in range(gpus)])
        ticks = sample(*(reading(n) for n in range(gpus)))
        logs = Logs(t=NODE_TIME, seq=3, files=rank_logs(gpus), complete=True)
        feed(fleet, name, LinkStatus("live"), hello(gpus), ticks, ranks, logs)
    return fleet
