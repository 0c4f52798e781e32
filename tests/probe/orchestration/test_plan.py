"""Who is measured with whom, and how long it should take."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from gpuwatch.probe.judging.checks.baseline import Baseline
from gpuwatch.probe.judging.judge import judge
from gpuwatch.probe.orchestration.conductor import Conductor, Judging
from gpuwatch.probe.orchestration.planning.message_size import load_for
from gpuwatch.probe.orchestration.planning.plan import make_plan
from gpuwatch.probe.orchestration.planning.schedule import circle, crossed_round, full_rounds, neighbour_round
from gpuwatch.probe.probe_request import MIB, ProbeRequest
from gpuwatch.probe.results import RankSlot, Results
from gpuwatch.probe.verdict import ProbeVerdict
from tests.probe.orchestration.scripted import Fabric, cluster


def assigned(nodes: int, ranks: int) -> list[RankSlot]:
    return [RankSlot(rank=at, node=f"n{at // ranks:03}", local=at % ranks) for at in range(nodes * ranks)]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 64])
def test_a_tournament_lets_everyone_meet_once(count: int) -> None:
    """Document 004, line 450."""
    rounds = circle(count)
    assert len(rounds) == (0 if count < 2 else count - 1 if count % 2 == 0 else count)
    for each in rounds:
        players = [player for pair in each for player in pair]
        assert len(players) == len(set(players))
    met = Counter(frozenset(pair) for each in rounds for pair in each)
    assert len(met) == count * (count - 1) // 2
    assert set(met.values()) <= {1}


@pytest.mark.parametrize(("nodes", "ranks"), [(1, 4), (2, 1), (2, 4), (3, 3), (8, 1), (4, 8)])
def test_a_small_world_is_measured_whole(nodes: int, ranks: int) -> None:
    slots = assigned(nodes, ranks)
    met = Counter()  # type: Counter[frozenset[int]]
    for each in full_rounds(slots):
        busy = [rank for pair in each.pairs for rank in pair]
        assert len(busy) == len(set(busy))
        met.update(frozenset(pair) for pair in each.pairs)
    assert len(met) == len(slots) * (len(slots) - 1) // 2
    assert set(met.values()) == {1}


def test_nodes_with_different_numbers_of_gpus() -> None:
    slots = [
        RankSlot(0, "a", 0),
        RankSlot(1, "a", 1),
        RankSlot(2, "b", 0),
        RankSlot(3, "c", 0),
        RankSlot(4, "c", 1),
    ]
    met = {frozenset(pair) for each in full_rounds(slots) for pair in each.pairs}
    nodes = {frozenset(slots[rank].node for rank in pair) for pair in met}
    assert nodes == {frozenset(pair) for pair in (("a",), ("c",), "ab", "ac", "bc")}


def test_given_iterations_are_in_the_estimate() -> None:
    """Document 004, line 167."""
    given = ProbeRequest(sizes=(256 * MIB,), collectives=("all_reduce",), pairs="none", iterations=100)
    assert make_plan(assigned(2, 1), given, "gloo").seconds > 110 * 2 * 256 * MIB / 1e9


def test_1024_gpus_take_three_minutes_at_most_and_miss_no_class_of_links() -> None:
    slots = assigned(128, 8)
    plan = make_plan(slots, ProbeRequest(), "nccl", 50e9)
    assert plan.seconds <= 180
    inside, nodes, shifts = set(), set(), set()
    for each in plan.rounds:
        for one, other in ((slots[a], slots[b]) for a, b in each.pairs):
            if one.node == other.node:
                assert each.link == "same_node"
                inside.add((one.node, frozenset((one.local, other.local))))
            else:
                assert each.link == ("same_rail" if one.local == other.local else "cross_rail")
                shifts.add((one.local, other.local))
                if one.local == other.local:
                    nodes.add((one.local, frozenset((one.node, other.node))))
    assert len(inside) == 128 * 28
    assert len(nodes) == 8 * 128 * 127 // 2  # every pair of nodes over every rail
    assert shifts == {(a, b) for a in range(8) for b in range(8)}  # and every rail with every other


@pytest.mark.timeout(600)
@pytest.mark.parametrize("nodes", [32, pytest.param(128, marks=pytest.mark.long)])
def test_a_probe_of_a_whole_cluster_runs_to_its_end(nodes: int) -> None:
    slow = {8 * 27 + 3}
    fabric = Fabric(rate=lambda src, dst: 1e9 if {src, dst} & slow and src // 8 != dst // 8 else 4e9)
    lines = cluster(nodes, gpus=8, fabric=fabric)

    def judge_at_the_end(results: Results, baseline: Baseline | None) -> ProbeVerdict:
        return judge(results, baseline) if results.over else ProbeVerdict("ok", "so far")

    conductor = Conductor(
        lines,
        ProbeRequest(sizes=(MIB,), budget_s=600),
        judging=Judging(judge_at_the_end, lambda _results: []),
    )
    conductor.start()
    deadline = time.monotonic() + 60
    while conductor.results.phase != "asking":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    estimate = conductor.results.estimate
    assert estimate is not None
    assert (estimate.nodes, estimate.ranks) == (nodes, 8 * nodes)
    assert estimate.seconds <= 180
    conductor.confirm()
    assert conductor.wait(100)
    conductor.close()
    results = conductor.results
    assert (results.phase, results.reason) == ("done", "")
    assert len(results.pairs) > 2 * (nodes * 28 + 8 * nodes * (nodes - 1) // 2)
    assert results.verdict is not None
    assert results.verdict.status == "bad"
    assert {culprit.name for culprit in results.verdict.culprits}
    assert all("gpu-027" in culprit.name for culprit in results.verdict.culprits)
    assert all(line.closed for line in lines)


def test_quick_mode_pairs_neighbours_and_then_the_fastest_with_the_slowest() -> None:
    slots = assigned(5, 1)
    first = neighbour_round(slots)
    assert first.pairs == ((0, 1), (2, 3))
    second = crossed_round(slots, {(0, 1): 9.0, (1, 0): 9.0, (2, 3): 1.0, (3, 2): None})
    partners = {rank: other for pair in second.pairs for rank, other in (pair, pair[::-1])}
    assert 4 in partners  # left over in the first round
    assert all(partners[slow] in {0, 1, 4} for slow in (2, 3) if slow in partners)


def test_quick_mode_on_one_node_pairs_its_ranks() -> None:
    slots = assigned(1, 4)
    assert neighbour_round(slots).pairs == ((0, 1), (2, 3))
    second = crossed_round(slots, {(0, 1): 1.0, (1, 0): 1.0, (2, 3): 4.0, (3, 2): 4.0})
    assert {frozenset(pair) for pair in second.pairs} <= {
        frozenset(pair) for pair in ((0, 2), (0, 3), (1, 2), (1, 3))
    }
    assert len(second.pairs) == 2


def test_one_rank_has_nobody_to_talk_to() -> None:
    plan = make_plan(assigned(1, 1), ProbeRequest(), "nccl")
    assert (plan.rows, plan.rounds) == ((), ())
    assert plan.gpu_checks == ("matmul", "copy", "h2d", "d2h")


def test_without_pairs_there_are_no_rounds() -> None:
    plan = make_plan(assigned(4, 8), ProbeRequest(pairs="none"), "nccl")
    assert plan.rounds == ()
    assert plan.round_count == 0


def test_a_slow_network_is_estimated_slower() -> None:
    slots = assigned(4, 1)
    assert (
        make_plan(slots, ProbeRequest(), "gloo", 25e6).seconds
        > make_plan(slots, ProbeRequest(), "gloo", 1.25e9).seconds
    )


@pytest.mark.parametrize("rate", [1e5, 6e6, 25e6, 1e9, 5e10, 9e11])
@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_a_pair_sends_enough_and_not_for_long(rate: float, backend: str) -> None:
    load = load_for(rate, 0.25, backend)
    assert 2 * MIB <= load.bytes <= 256 * MIB
    assert 3 <= load.iterations <= 12
    assert load.alone.iterations >= load.iterations
    if load.bytes > 2 * MIB:
        assert load.bytes * load.iterations / rate <= 0.3
    assert load_for(rate, 0.0, backend).iterations <= load.iterations
    assert load_for(None, 0.25, backend).bytes == 2 * MIB
