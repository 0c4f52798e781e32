"""One GPU of several: alone in use, or less used than its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.health.conditions import node_conditions
from gpuwatch.diagnose.health.peer_comparison import USED_S, peer_conditions
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from tests.diagnose.story import EPOCH, FINE, NOW, info

NAME = "gpu-001"


def node_with(used: Sequence[float], processes: Sequence[wire.Process] = (), seconds: int = 1) -> Node:
    """A node whose GPUs were used so much for so many seconds up to now."""
    fleet = Fleet(Plan((NodeSpec(NAME),)))
    gpus = [info(n) for n in range(len(used))]
    hello = wire.Hello(t=EPOCH, seq=0, host=NAME, agent="1", python="3", pid=1, interval_s=1.0, gpus=gpus)
    fleet.apply(Arrival(NAME, NOW - seconds, LinkStatus("live")))
    fleet.apply(Arrival(NAME, NOW - seconds, hello))
    for second in range(seconds):
        t = EPOCH - seconds + 1 + second
        samples = [
            wire.GpuSample(f"GPU-{n}", fast=structs.replace(FINE, t=t, utilization_pct=pct))
            for n, pct in enumerate(used)
        ]
        fleet.apply(Arrival(NAME, NOW - seconds + 1 + second, wire.Sample(t=t, seq=1, gpus=samples)))
    fleet.apply(Arrival(NAME, NOW, wire.Ranks(t=EPOCH, seq=2, processes=list(processes))))
    return fleet.nodes[NAME]


def on_gpu(pid: int, gpu: int, **more: object) -> wire.Process:
    facts: dict[str, object] = {"variables": {"CUDA_VISIBLE_DEVICES": str(gpu)}, **more}
    return wire.Process(pid, "python", gpus=[wire.ProcessGpu(f"GPU-{gpu}", 1 << 30)], **facts)  # type: ignore[arg-type]


def codes(node: Node) -> set[str]:
    found = [*node_conditions(node, Thresholds(), NOW), *peer_conditions(node, Thresholds(), NOW)]
    return {each.code for each in found} & {"lone_gpu", "less_used_than_peers"}


@pytest.mark.parametrize(
    ("used", "processes", "found"),
    [
        ((95.0, 0.0, 0.0, 0.0), [on_gpu(7, 0)], {"lone_gpu"}),
        ((95.0, 0.0, 0.0, 0.0), [on_gpu(7, 0, rank=0, world_size=1)], {"lone_gpu"}),
        ((95.0, 0.0, 0.0, 0.0), [on_gpu(7, 0, rank=0, world_size=4)], set()),
        ((95.0, 0.0, 40.0, 0.0), [on_gpu(7, 0)], set()),
        ((95.0, 95.0), [on_gpu(7, 0), on_gpu(8, 1)], set()),
        ((95.0,), [on_gpu(7, 0)], set()),
    ],
)
def test_a_process_alone_on_one_gpu_beside_idle_ones_is_remarked(
    used: Sequence[float], processes: Sequence[wire.Process], found: set[str]
) -> None:
    """Document 002, line 250."""
    node = node_with(used, processes)
    assert codes(node) == found
    if found:
        (condition,) = (each for each in node_conditions(node, Thresholds(), NOW) if each.code == "lone_gpu")
        assert "CUDA_VISIBLE_DEVICES=0" in condition.text
        assert condition.severity == "info"


@pytest.mark.parametrize(
    ("used", "seconds", "found"),
    [
        ((45.0, 95.0), USED_S, {"less_used_than_peers"}),
        ((95.0, 96.0, 45.0), USED_S, {"less_used_than_peers"}),
        ((53.0, 84.0), USED_S, {"less_used_than_peers"}),
        ((41.0, 74.0), USED_S, {"less_used_than_peers"}),  # 95 % in its steps, which load and wait, too
        ((45.0, 95.0), 60, set()),
        ((85.0, 95.0), USED_S, set()),
        ((0.0, 95.0), USED_S, set()),
        ((45.0, 60.0), USED_S, set()),
    ],
)
def test_a_gpu_that_works_for_a_part_of_the_time_for_minutes_is_reported(
    used: Sequence[float], seconds: int, found: set[str]
) -> None:
    assert codes(node_with(used, [on_gpu(7 + n, n) for n in range(len(used))], seconds)) == found
