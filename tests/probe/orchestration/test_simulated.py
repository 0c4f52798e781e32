"""The demo's simulated nodes under the real conductor, planner and judge."""

from __future__ import annotations

import pytest

from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.probe.orchestration.conductor import Conductor
from gpuwatch.probe.orchestration.nodes.simulated import Simulation
from gpuwatch.probe.orchestration.opening import node_lines
from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.results import Results


def probed(nodes: int, request: ProbeRequest) -> Results:
    names = [f"gpu-{number:03}" for number in range(1, nodes + 1)]
    simulation = Simulation(names, pace=0)
    conductor = Conductor([simulation.line(name) for name in names], request)
    conductor.start()
    conductor.confirm()
    assert conductor.wait(120)
    conductor.close()
    return conductor.results


@pytest.mark.parametrize(("nodes", "bad"), [(2, "gpu-002"), (4, "gpu-004"), (16, "gpu-013")])
def test_the_bad_port_is_found_and_nothing_else(nodes: int, bad: str) -> None:
    results = probed(nodes, ProbeRequest())
    assert results.phase == "done", results.reason
    assert results.verdict is not None
    assert results.verdict.status == "bad"
    assert len(results.pairs) >= nodes * (nodes - 1) * 8
    if nodes > 2:
        assert [culprit.name.partition(" ")[0] for culprit in results.verdict.culprits] == [bad]
    assert {change.node for change in results.counters} == {bad}


def test_one_node_alone_is_healthy_and_two_probes_come_alike() -> None:
    first, second = probed(1, ProbeRequest()), probed(1, ProbeRequest())
    assert first.verdict is not None
    assert first.verdict.status == "ok"
    assert {p: r.latency_us for p, r in first.pairs.items()}.keys() == second.pairs.keys()
    rates = [[gpu.matmul_flops for gpu in each.gpus.values()] for each in (first, second)]
    assert rates[0] == rates[1]


def test_a_plan_of_demo_nodes_gets_a_line_for_each() -> None:
    plan = demo_plan()
    lines = node_lines(plan, lambda _node: None, ProbeRequest(), 4)
    assert [line.node for line in lines] == [spec.name for spec in plan.nodes]


def test_a_closed_line_says_no_more() -> None:
    received: list[object] = []
    simulation = Simulation(["a", "b"])
    lines = [simulation.line(name) for name in ("a", "b")]
    for line in lines:
        line.open(lambda node, message: received.append((node, message)))
    for line in lines:
        line.close()
        line.close()
    assert len(received) == 2, "each one's last word, and no inventory that was still due"
