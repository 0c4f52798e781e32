from __future__ import annotations

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.link.inbox import LinkStatus
from gpuwatch.report.waiting import settled
from gpuwatch.wire import GpuSample, Ranks
from tests.report.fleets import NODE_TIME, START, fast, feed, healthy_fleet, hello, plan, reading, sample


def test_a_node_is_waited_for_until_both_quick_tiers_of_every_gpu_are_there() -> None:
    fleet = Fleet(plan("gpu-001"))
    node = fleet.nodes["gpu-001"]
    feed(fleet, "gpu-001", LinkStatus("live"), hello(2), Ranks(t=NODE_TIME, seq=1))
    assert not settled(node, START)
    feed(fleet, "gpu-001", sample(reading(0), GpuSample(uuid="GPU-0001", fast=fast())))
    assert not settled(node, START)
    feed(fleet, "gpu-001", sample(reading(1)))
    assert settled(node, START)


def test_a_stuck_gpu_is_not_waited_for() -> None:
    fleet = Fleet(plan("gpu-001"))
    stuck = GpuSample(uuid="GPU-0001", state="stuck", stuck_in="nvmlInit", stuck_s=1.0)
    feed(fleet, "gpu-001", LinkStatus("live"), hello(2), Ranks(t=NODE_TIME, seq=1), sample(reading(0), stuck))
    assert settled(fleet.nodes["gpu-001"], START)


def test_a_node_that_failed_is_not_waited_for_and_one_under_way_is() -> None:
    fleet = Fleet(plan("gpu-001", "gpu-002"))
    feed(fleet, "gpu-001", LinkStatus("lost", "connection refused"))
    assert settled(fleet.nodes["gpu-001"], START)
    assert not settled(fleet.nodes["gpu-002"], START)


def test_a_machine_without_gpus_is_complete_with_its_host() -> None:
    assert settled(healthy_fleet(gpus=0).nodes["gpu-001"], START)
