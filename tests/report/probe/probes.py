"""Hand-made results of probes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwatch.probe.probe_request import MIB, ProbeRequest
from gpuwatch.probe.protocol import InventoryGpu, InventoryNic, InventoryPort, NodeInventory
from gpuwatch.probe.results import (
    CollectiveResult,
    Estimate,
    GpuResult,
    PairResult,
    Phase,
    ProbedNode,
    RankSlot,
    Results,
)
from gpuwatch.probe.verdict import Culprit, ProbeVerdict

GPU = "NVIDIA H100 80GB HBM3"


def inventory(number: int, gpus: int = 8) -> ProbedNode:
    name = f"gpu-{number:03d}"
    return ProbedNode(
        name,
        NodeInventory(
            host=name,
            pid=4000 + number,
            python="/opt/conda/bin/python",
            python_from=f"process {4700 + number} (train.py)",
            torch="2.7.1",
            cpus=96,
            gpus=[InventoryGpu(index=n, uuid=f"GPU-{number}-{n}", name=GPU) for n in range(gpus)],
            nics=[
                InventoryNic(name="lo", address="127.0.0.1", prefix=8),
                InventoryNic(name="eth0", address=f"10.0.0.{number}", prefix=24, speed_bps=25e9 / 8),
            ],
            ports=[
                InventoryPort(
                    device=f"mlx5_{n}", port=1, state="ACTIVE", link_layer="InfiniBand", rate_gbps=400.0
                )
                for n in range(gpus)
            ],
        ),
    )


def cluster(nodes: int, local: int, *, gpus: bool = True, phase: Phase = "done") -> Results:
    """A probe of that many nodes and ranks on each, nothing measured yet."""
    results = Results(ProbeRequest(), started=1_700_000_000.0, phase=phase, ended=1_700_000_042.5)
    results.nodes = [inventory(number, local if gpus else 0) for number in range(1, nodes + 1)]
    results.slots = [
        RankSlot(
            rank=node * local + place,
            node=f"gpu-{node + 1:03d}",
            local=place,
            device=GPU if gpus else "cpu",
            gpu=place if gpus else None,
        )
        for node in range(nodes)
        for place in range(local)
    ]
    results.backend = "nccl" if gpus else "gloo"
    results.torch = "2.7.1"
    results.nccl = "2.27.3" if gpus else None
    results.estimate = Estimate(
        nodes, nodes * local, "nccl" if gpus else "gloo", 40.0, 12_000_000_000, 31, 180, "ib0 (10.1.0.0/16)"
    )
    return results


def with_pairs(results: Results, rate: Callable[[RankSlot, RankSlot], float | None]) -> Results:
    """Every directed link of one node and of one rail; `rate` in GB/s, None: it failed."""
    for src in results.slots:
        for dst in results.slots:
            if src.rank == dst.rank or (src.node != dst.node and src.local != dst.local):
                continue
            measured = rate(src, dst)
            results.pairs[src.rank, dst.rank] = PairResult(
                src.rank,
                dst.rank,
                "same_node" if src.node == dst.node else "same_rail",
                ok=measured is not None,
                bandwidth_gb_per_s=measured,
                latency_us=None if measured is None else 12.5,
                spread=0.02,
                error="timed out after 30 s" if measured is None else None,
            )
    return results


def measured(op_sizes: Sequence[int] = (1, 4, 16, 64, 256)) -> list[CollectiveResult]:
    """An all_reduce that reaches 370 GB/s."""
    return [
        CollectiveResult(
            "all_reduce",
            size * MIB,
            p50_s=size * MIB / 2e11,
            min_s=size * MIB / 2.1e11,
            p99_s=size * MIB / 1.5e11,
            cv=0.034,
            algbw_gb_per_s=200.0,
            busbw_gb_per_s=370.25,
            nic_gb_per_s=36.5,
            correct=True,
        )
        for size in op_sizes
    ]


def slow_node(name: str) -> ProbeVerdict:
    return ProbeVerdict(
        "bad",
        f"{name} is slow: 14 of its 14 links reach 25 % of their peers' rate",
        (Culprit("node", name, 0.25, ("14 of 14 links under 0.7", "the other links reach 48.7 GB/s")),),
        ("14 of 56 links under 0.7 of the best tenth",),
        ("expected IB, got TCP on rank 3",),
        ("look at the NIC and cable of " + name,),
    )


def gpu_checks(results: Results) -> None:
    for slot in results.slots:
        slow = 0.8 if slot.rank == 5 else 1.0
        results.gpus[slot.rank] = GpuResult(slot.rank, 700e12 * slow, 1.6e12, 52e9, 50e9)
