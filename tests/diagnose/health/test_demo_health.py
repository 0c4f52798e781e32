"""What the conditions say about the demo's cluster, healthy and in its incident."""

from __future__ import annotations

import functools

import pytest

from gpuwatch.diagnose.health.conditions import gpu_conditions, node_conditions
from gpuwatch.diagnose.model.condition import Condition, worst
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan
from tests.diagnose.story import LIMITS, NOW, Story, codes
from tests.link.demo.story import frames_until
from tests.sentences import Sentences


@functools.cache
def demo(seconds: float) -> Fleet:
    nodes = tuple(NodeSpec(f"gpu-{n:03}", link="demo", slots=8) for n in range(1, 17))
    fleet = Fleet(Plan(nodes))
    for arrival in frames_until(seconds, ends_at=NOW):
        fleet.apply(arrival)
    return fleet


def every_condition(fleet: Fleet) -> list[tuple[str, Condition]]:
    found: list[tuple[str, Condition]] = []
    for node in fleet.nodes.values():
        found += [(node.name, condition) for condition in node_conditions(node, LIMITS, NOW)]
        for gpu in node.gpu_list():
            found += [(node.name, condition) for condition in gpu_conditions(gpu, node, LIMITS, NOW)]
    return found


def test_a_healthy_cluster_has_no_condition_at_all() -> None:
    assert every_condition(demo(10.0)) == []
    story = Story()
    story.sample()
    assert story.of_gpu() == story.of_node() == []


def test_the_demo_shows_its_straggler_and_then_its_lost_gpu(sentences: Sentences) -> None:
    straggler = every_condition(demo(42.0))
    assert {(name, condition.gpu) for name, condition in straggler} == {("gpu-006", 2)}
    assert {condition.code for _, condition in straggler} == {"temperature", "sw_thermal"}
    fallen = every_condition(demo(60.0))
    assert {(name, condition.gpu) for name, condition in fallen} == {("gpu-011", 5)}
    assert codes([condition for _, condition in fallen]) == [("gpu_lost", "critical"), ("xid", "critical")]
    lost, xid = (condition for _, condition in fallen)
    sentences(lost.sentence)
    assert lost.evidence.age_s is not None and 14 < lost.evidence.age_s < 17
    sentences(xid.text)
    assert xid.evidence.age_s == pytest.approx(15.0, abs=1.1)


def test_worst() -> None:
    assert worst([]) is None
    fallen = [condition for _, condition in every_condition(demo(60.0))]
    chosen = worst(fallen)
    assert chosen is not None
    assert chosen.code == "gpu_lost"
