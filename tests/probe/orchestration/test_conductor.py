"""The conductor from the first word to the last, over nodes that follow a script."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from msgspec import structs

from gpuwatch.clock import SessionClock
from gpuwatch.probe.judging.judge import judge as judge_results
from gpuwatch.probe.orchestration.conductor import Conductor, Judging, Suspects
from gpuwatch.probe.orchestration.planning.schedule import Pair
from gpuwatch.probe.probe_request import MIB, ProbeRequest
from gpuwatch.probe.protocol import AnyOrder, Arrived, Died, Done, GpuUser, Prepare, Ready, Step
from gpuwatch.probe.ranks.shared.store_client import DELAYED, TAMPERED
from gpuwatch.probe.results import Results
from gpuwatch.probe.verdict import ProbeVerdict
from tests.probe.orchestration.scripted import (
    Fabric,
    ScriptedLine,
    await_phase,
    await_until,
    cluster,
    confirm_and_wait,
    did_not_come,
    inventory,
)
from tests.sentences import Sentences

SMALL = ProbeRequest(sizes=(MIB, 4 * MIB), timeout_s=1.0)


def judge(results: Results, _baseline: Any) -> ProbeVerdict:
    return ProbeVerdict("ok", results.phase)


def nobody(_results: Results) -> Sequence[Pair]:
    return []


def probe(
    lines: Sequence[ScriptedLine],
    request: ProbeRequest = SMALL,
    suspects: Suspects = nobody,
    clock: Callable[[], float] = time.monotonic,
) -> Conductor:
    """A probe that has begun."""
    conductor = Conductor(lines, request, judging=Judging(judge, suspects), clock=SessionClock(clock))
    conductor.start()
    return conductor


def measured(lines: Sequence[ScriptedLine], suspects: Suspects = nobody) -> Conductor:
    """A probe that came to its end, and keeps its ranks."""
    conductor = probe(lines, suspects=suspects)
    confirm_and_wait(conductor)
    return conductor


def run_through(
    lines: Sequence[ScriptedLine],
    request: ProbeRequest = SMALL,
    suspects: Suspects = nobody,
    clock: Callable[[], float] = time.monotonic,
) -> Results:
    """The results of a whole probe."""
    conductor = probe(lines, request, suspects, clock)
    confirm_and_wait(conductor)
    conductor.close()
    return conductor.results


def test_a_whole_probe() -> None:
    lines = cluster(3, fabric=Fabric(rate=lambda src, dst: 1e9 if (src, dst) == (0, 4) else 2e9))
    results = run_through(lines)
    assert (results.phase, results.reason) == ("done", "")
    assert [slot.node for slot in results.slots] == [
        "gpu-000",
        "gpu-000",
        "gpu-001",
        "gpu-001",
        "gpu-002",
        "gpu-002",
    ]
    assert len(results.collectives) == 6 * 2
    assert all(row.correct and row.busbw_gb_per_s for row in results.collectives)
    assert set(results.pairs) == {(a, b) for a in range(6) for b in range(6) if a != b}
    assert results.pairs[0, 4].bandwidth_gb_per_s == pytest.approx(1.0)
    assert results.pairs[4, 0].bandwidth_gb_per_s == pytest.approx(2.0)
    assert results.pairs[0, 4].latency_us == pytest.approx(20.0)
    changes = {(each.name, each.before, each.after) for each in results.counters}
    assert changes == {("nic:eth0:rx_errors", 1.0, 3.0), ("=pcie:GPU-1:gen", 1.0, 5.0)}
    assert results.done_steps == results.all_steps
    assert results.verdict == ProbeVerdict("ok", "done")
    assert all(line.closed for line in lines)


def test_it_waits_for_a_person_and_says_what_it_will_do() -> None:
    lines = cluster(4, gpus=8)
    conductor = probe(lines)
    await_phase(conductor, "asking")
    estimate = conductor.results.estimate
    assert estimate is not None
    assert (estimate.nodes, estimate.ranks, estimate.backend) == (4, 32, "nccl")
    assert estimate.interface == "eth0 (10.1.0.0/16)"
    assert 0 < estimate.seconds <= conductor.results.request.budget_s
    assert not any(line.reported for line in lines)
    conductor.close()
    assert conductor.results.phase == "cancelled"


def test_busy_gpus_are_refused_by_name() -> None:
    lines = cluster(2, gpus=2)
    busy = inventory("gpu-001", 1, 2)
    busy.gpus[1].users.append(GpuUser(pid=4711, name="train.py", user="alice"))
    lines[1] = ScriptedLine("gpu-001", busy, Fabric())
    results = run_through(lines)
    assert results.phase == "refused"
    for word in ("gpu-001", "train.py", "4711", "alice", "GPU 1", "--allow-busy"):
        assert word in results.reason
    assert [user.pid for user in results.busy["gpu-001"]] == [4711]
    assert not any(line.reported for line in lines)
    assert run_through(cluster_with(busy), ProbeRequest(sizes=(MIB,), busy_too=True)).phase == "done"


def cluster_with(busy: Any) -> list[ScriptedLine]:
    return [*cluster(1, gpus=2), ScriptedLine("gpu-001", busy, Fabric())]


def test_a_gpu_that_an_unseen_process_works_on_is_busy(sentences: Sentences) -> None:
    quiet = inventory("gpu-000", 0, 1)
    working = msgspec.structs.replace(quiet, gpus=[msgspec.structs.replace(quiet.gpus[0], util_pct=98.0)])
    results = run_through([ScriptedLine("gpu-000", working, Fabric())])
    assert results.phase == "refused"
    sentences(results.reason)


def test_without_torch_anywhere_it_says_what_was_tried() -> None:
    bare = msgspec.structs.replace(
        inventory("a", 0), python=None, torch=None, tried=["/usr/bin/python3: no torch"]
    )
    results = run_through([ScriptedLine("a", bare, Fabric())])
    assert results.phase == "refused"
    assert "/usr/bin/python3: no torch" in results.reason
    assert "`python:`" in results.reason


def test_nodes_that_cannot_take_part_are_named_and_the_others_go_on(sentences: Sentences) -> None:
    lines = [*cluster(2), ScriptedLine("down", None, Fabric())]
    results = run_through(lines)
    assert results.phase == "done"
    assert {slot.node for slot in results.slots} == {"gpu-000", "gpu-001"}
    assert next(each.problem for each in results.nodes if each.node == "down") == "connection refused"
    sentences(results.notes)


def test_a_node_without_torch_is_left_out_while_a_person_thinks() -> None:
    bare = msgspec.structs.replace(inventory("bare", 9), python=None, torch=None)
    lines = [*cluster(2), ScriptedLine("bare", bare, Fabric())]
    conductor = probe(lines)
    await_phase(conductor, "asking", "refused")
    await_until(conductor, lambda: lines[-1].closed)
    confirm_and_wait(conductor)
    conductor.close()
    assert conductor.results.phase == "done"
    assert {slot.node for slot in conductor.results.slots} == {"gpu-000", "gpu-001"}


def test_a_pair_through_which_nothing_comes_is_tried_again_only_for_a_person() -> None:
    fabric = Fabric(mute={frozenset((0, 2))})
    lines = cluster(2, fabric=fabric)
    conductor = measured(lines, suspects=lambda _results: [(0, 2)])
    results = conductor.results
    assert not results.pairs[0, 2].ok
    assert "timed out" in (results.pairs[2, 0].error or "")
    assert (
        len([step for step in lines[0].steps("latency") if (0, 2) in step.pairs or (2, 0) in step.pairs]) == 1
    )
    fabric.mute.clear()
    conductor.retest([(0, 2)])
    await_until(conductor, lambda: results.pairs[0, 2].ok)
    conductor.close()
    assert results.pairs[0, 2].retested
    assert results.pairs[0, 2].bandwidth_gb_per_s == pytest.approx(2.0)


def test_a_dead_rail_of_one_node_is_not_waited_for_in_every_round() -> None:
    dead = 2  # the first rank of the second node
    others = [rank for rank in range(12) if rank // 2 != 1]
    lines = cluster(6, fabric=Fabric(mute={frozenset((dead, rank)) for rank in others}))
    results = run_through(lines)
    assert results.phase == "done"
    failed = {pair for pair, each in results.pairs.items() if not each.ok}
    assert failed == {pair for rank in others for pair in ((dead, rank), (rank, dead))}
    tried = [
        pair
        for step in lines[1].steps("latency")
        for pair in step.pairs
        if dead in pair and set(pair) & set(others)
    ]
    assert len(tried) == 3


def test_a_dead_pair_is_reported_and_not_waited_for() -> None:
    cut = frozenset(("gpu-001", "gpu-003"))
    lines = cluster(4, fabric=Fabric(cut={cut}))
    results = run_through(lines)
    assert results.phase == "done"
    assert {(each.src, each.dst) for each in results.unreachable} == {
        ("gpu-001", "gpu-003"),
        ("gpu-003", "gpu-001"),
    }
    assert results.collectives == []
    assert any("no collectives" in note for note in results.notes)
    dead = {pair for pair, result in results.pairs.items() if not result.ok}
    assert {frozenset(results.slots[rank].node for rank in pair) for pair in dead} == {cut}
    assert all("5 s" in (results.pairs[pair].error or "") for pair in dead)
    assert len(results.pairs) == 8 * 7
    reported = {frozenset(pair) for line in lines for step in line.steps("latency") for pair in step.pairs}
    assert not reported & {frozenset(pair) for pair in dead}


def test_a_node_that_nobody_reaches_is_left_out(sentences: Sentences) -> None:
    others = ("gpu-000", "gpu-001", "gpu-003")
    lines = cluster(4, fabric=Fabric(cut={frozenset((other, "gpu-002")) for other in others}))
    results = run_through(lines)
    assert results.phase == "done"
    assert sorted({slot.node for slot in results.slots}) == list(others)
    assert results.collectives
    problem = next(each.problem for each in results.nodes if each.node == "gpu-002")
    sentences(problem or "")


def test_a_node_lost_midway_ends_all_and_keeps_what_there_is(sentences: Sentences) -> None:
    fabric = Fabric()
    lines = cluster(3, fabric=fabric)

    def unlucky(node: str, step: Step, _rank: int) -> bool:
        if node == "gpu-001" and step.what == "bandwidth":
            lines[1].lose("the connection was closed")
        return True

    fabric.unlucky = unlucky
    results = run_through(lines)
    assert results.phase == "failed"
    sentences(results.reason)
    assert len(results.collectives) == 12
    assert results.verdict is not None
    assert all(line.closed for line in lines)


def test_a_rank_that_dies_is_named_and_the_probe_ends_in_order(sentences: Sentences) -> None:
    def unlucky(_node: str, step: Step, rank: int) -> Done | Died | bool:
        if step.collective != "all_gather" or step.bytes < 4 * MIB:
            return True
        if rank == 3:
            return Died(rank=3, reason="killed by signal 9")
        return Done(step=step.id, rank=rank, error="Connection closed by peer")

    lines = cluster(2, gpus=2, fabric=Fabric(unlucky=unlucky))
    results = run_through(lines)
    assert results.phase == "failed"
    sentences(results.reason)
    rows = {(row.op, row.bytes): row for row in results.collectives}
    assert rows["all_reduce", 4 * MIB].error is None
    assert "rank 3 (gpu-001 GPU 1)" in (rows["all_gather", 4 * MIB].error or "")
    assert all(line.closed for line in lines)


def test_a_hang_is_attributed(sentences: Sentences) -> None:
    def unlucky(_node: str, step: Step, rank: int) -> Done | bool | None:
        if step.collective != "broadcast":
            return True
        return None if rank == 2 else did_not_come(step, rank, 2)

    results = run_through(cluster(2, fabric=Fabric(unlucky=unlucky)))
    assert results.phase == "failed"
    assert list(results.gone) == [2]
    sentences(results.reason)


def test_a_node_that_calls_ranks_of_others_absent_is_not_believed_against_their_answers() -> None:
    """gpu-001 lies about rank 0, at once; the rank itself answers later."""

    def unlucky(_node: str, step: Step, rank: int) -> Done | bool:
        return did_not_come(step, 3, 0, 1, 77) if step.collective == "broadcast" and rank == 3 else True

    results = run_through(cluster(2, fabric=Fabric(unlucky=unlucky)))
    assert not results.gone


@pytest.mark.parametrize(("answer", "what"), [("done", TAMPERED), ("died", TAMPERED), ("done", DELAYED)])
def test_a_store_that_was_changed_ends_the_probe_and_names_no_rank(answer: str, what: str) -> None:
    words = f"the store of the probe does not answer: {what}: the value of x has no valid signature"

    def unlucky(_node: str, step: Step, rank: int) -> Done | Died | bool:
        if step.collective != "broadcast" or rank != 1:
            return True
        return Done(step=step.id, rank=1, error=words) if answer == "done" else Died(rank=1, reason=words)

    results = run_through(cluster(2, fabric=Fabric(unlucky=unlucky)))
    assert results.phase == "failed"
    assert results.reason.startswith(what)
    assert not results.gone


@pytest.mark.parametrize("lie", [Died(rank=0, reason="x"), Done(step=1, rank=0, error="x")])
def test_a_node_speaks_for_its_own_ranks_only(lie: Died | Done) -> None:
    def unlucky(_node: str, step: Step, rank: int) -> Done | Died | bool:
        if rank != 3:
            return True
        return lie if isinstance(lie, Died) else structs.replace(lie, step=step.id)

    results = run_through(cluster(2, fabric=Fabric(unlucky=unlucky)))
    assert 0 not in results.gone
    assert not any(row.error and "rank 0 " in row.error for row in results.collectives)


def test_a_node_ends_no_rank_of_another_while_the_ranks_start() -> None:
    class Hostile(ScriptedLine):
        def _answer(self, order: AnyOrder) -> None:
            if isinstance(order, Prepare):
                self._receive(self.node, Died(rank=0, reason="replace GPU 0"))
            super()._answer(order)

    fabric = Fabric()
    lines = [*cluster(1, fabric=fabric), Hostile("gpu-001", inventory("gpu-001", 1, 0), fabric)]
    results = run_through(lines)
    assert (results.phase, results.gone) == ("done", {})


@pytest.mark.parametrize(
    ("arrived", "died", "named"),
    [
        (True, Died(reason="exit code 1: MemoryError: std::bad_alloc"), False),
        (False, Died(reason="the store does not answer", cause="connections"), False),
        (True, Died(reason="its GPU cannot be used: out of memory", cause="own"), True),
        (False, Died(reason="killed by SIGKILL"), True),
    ],
)
def test_an_end_that_others_can_cause_while_the_ranks_connect_names_nobody(
    arrived: bool, died: Died, named: bool
) -> None:
    """A stranger on the network can write to the ports of a rank from its arrival on."""

    class Unlucky(ScriptedLine):
        def _answer(self, order: AnyOrder) -> None:
            if not isinstance(order, Prepare):
                super()._answer(order)
                return
            for rank in (slot.rank for slot in order.slots):
                if arrived:
                    self._receive(self.node, Arrived(rank=rank))
                self._receive(self.node, structs.replace(died, rank=rank))

    fabric = Fabric()
    lines = [*cluster(2, fabric=fabric), Unlucky("gpu-002", inventory("gpu-002", 2, 0), fabric)]
    verdict = judge_results(run_through(lines))
    assert verdict.status == "failed"
    assert died.reason in verdict.sentence
    assert bool(verdict.culprits) == named


def test_what_one_node_alone_cannot_do_is_stated_with_its_name_and_is_not_well() -> None:
    class Hostile(ScriptedLine):
        def _answer(self, order: AnyOrder) -> None:
            if not isinstance(order, Prepare):
                super()._answer(order)
                return
            self._ranks = [slot.rank for slot in order.slots]
            for rank in self._ranks:
                ready = Ready(rank=rank, pid=rank, backend="nccl", torch="2.13.0", lacks=["all_reduce"])
                self._receive(self.node, ready)

    fabric = Fabric()
    lines = [*cluster(2, fabric=fabric), Hostile("gpu-002", inventory("gpu-002", 2, 0), fabric)]
    results = run_through(lines)
    assert results.backend == "gloo"
    assert judge_results(results).status == "bad"
    (error,) = {each.error for each in results.collectives if each.op == "all_reduce"}
    assert error is not None
    assert "gpu-002" in error
    assert "gpu-000" not in error


def test_what_a_node_adds_to_tampering_is_not_repeated() -> None:
    class Hostile(ScriptedLine):
        def _answer(self, order: AnyOrder) -> None:
            if isinstance(order, Prepare):
                reason = f"{TAMPERED} by gpu-000, replace it"
                self._receive(self.node, Died(rank=order.slots[0].rank, reason=reason))
            else:
                super()._answer(order)

    fabric = Fabric()
    lines = [*cluster(2, fabric=fabric), Hostile("gpu-002", inventory("gpu-002", 2, 0), fabric)]
    results = run_through(lines)
    assert results.phase == "failed"
    assert "gpu-000" not in results.reason
    assert "gpu-002" in results.reason


def test_ranks_that_say_nothing_at_all_are_named(sentences: Sentences) -> None:
    def unlucky(_node: str, step: Step, rank: int) -> bool | None:
        return None if step.collective == "all_to_all" and rank in {1, 2} else True

    request = ProbeRequest(sizes=(MIB,), timeout_s=-2.0)  # so that the margin is all that is waited for
    results = run_through(cluster(2, fabric=Fabric(unlucky=unlucky)), request)
    assert results.phase == "failed"
    sentences(results.reason)


def test_a_collective_that_torch_cannot_do_leaves_the_others() -> None:
    def unlucky(_node: str, step: Step, rank: int) -> Done | bool:
        wrong = step.collective == "reduce_scatter"
        return Done(step=step.id, rank=rank, error="not implemented") if wrong else True

    results = run_through(cluster(2, fabric=Fabric(unlucky=unlucky)))
    assert results.phase == "done"
    failed = [row for row in results.collectives if row.error]
    assert [row.op for row in failed] == ["reduce_scatter"]
    assert "not implemented" in (failed[0].error or "")


def test_wrong_results_are_reported() -> None:
    def unlucky(_node: str, step: Step, rank: int) -> Done | bool:
        wrong = step.collective == "all_reduce" and rank == 1
        return Done(step=step.id, rank=rank, times_s=[0.01], correct=False) if wrong else True

    results = run_through(cluster(2, fabric=Fabric(unlucky=unlucky)))
    assert {row.correct for row in results.collectives if row.op == "all_reduce"} == {False}
    assert {row.correct for row in results.collectives if row.op != "all_reduce"} == {True}


def test_cancel_ends_everything_and_keeps_what_there_is() -> None:
    lines = cluster(
        3, fabric=Fabric(unlucky=lambda _node, step, _rank: None if step.what == "bandwidth" else True)
    )
    conductor = probe(lines)
    await_phase(conductor, "asking")
    conductor.confirm()
    await_phase(conductor, "pairs")
    conductor.cancel()
    assert conductor.wait(60)
    assert conductor.results.phase == "cancelled"
    assert len(conductor.results.collectives) == 12
    assert all(line.closed for line in lines)


def test_suspects_are_measured_again_alone() -> None:
    lines = cluster(3)
    results = run_through(
        lines, suspects=lambda results: [] if results.pairs[0, 4].retested else [(0, 4), (2, 0)]
    )
    assert [pair for pair, result in results.pairs.items() if result.retested] == [(0, 4), (2, 0)]
    assert [step.pairs for step in lines[0].steps("bandwidth")][-2:] == [[(0, 4)], [(2, 0)]]
    assert results.pairs[0, 4].latency_us == pytest.approx(20.0)


def test_a_person_retests_while_the_ranks_are_kept() -> None:
    lines = cluster(2)
    conductor = measured(lines)
    assert conductor.keeps_ranks
    conductor.retest([(1, 3), (1, 99)])
    await_until(conductor, lambda: conductor.results.pairs[1, 3].retested)
    await_phase(conductor, "done")
    conductor.close()
    assert conductor.results.phase == "done"
    assert not conductor.keeps_ranks
    assert all(line.closed for line in lines)


def test_the_budget_ends_it_and_says_what_was_left_out(sentences: Sentences) -> None:
    clock = [0.0]

    def unlucky(_node: str, _step: Step, _rank: int) -> bool:
        clock[0] += 0.05
        return True

    lines = cluster(4, fabric=Fabric(unlucky=unlucky))
    results = run_through(lines, ProbeRequest(budget_s=14.0), clock=lambda: clock[0])
    assert results.phase == "done"
    assert clock[0] < 30
    assert 0 < len(results.collectives) < 30
    assert results.pairs
    left_out = next(note for note in results.notes if note.startswith("not measured for lack of time"))
    sentences(left_out)


def test_a_large_size_after_a_tiny_one_is_not_given_up_for_its_latency(sentences: Sentences) -> None:
    clock = [0.0]

    def takes(size: int) -> float:
        return 300e-6 + size / 1e9

    def unlucky(_node: str, step: Step, rank: int) -> bool:
        if rank == 0:
            clock[0] += (step.warmup + step.iterations + 1) * takes(step.bytes)
        return True

    request = ProbeRequest(sizes=(1024, 256 * MIB), collectives=("all_reduce",), pairs="none", budget_s=60.0)
    lines = cluster(4, fabric=Fabric(takes=takes, unlucky=unlucky))
    results = run_through(lines, request, clock=lambda: clock[0])
    assert [row.bytes for row in results.collectives] == [1024, 256 * MIB]
    sentences(results.notes)


def test_the_number_of_iterations_can_be_given() -> None:
    """Document 004, line 167: 10 warm-up rounds and 100 iterations, also beyond the time of a row."""
    clock, steps = [0.0], []

    def unlucky(_node: str, step: Step, rank: int) -> bool:
        if rank == 0 and step.bytes >= MIB:
            steps.append((step.bytes, step.warmup, step.iterations))
            clock[0] += (step.warmup + step.iterations + 1) * step.bytes / 1e9
        return True

    sizes = (MIB, 256 * MIB)
    request = ProbeRequest(sizes=sizes, collectives=("all_reduce",), pairs="none", iterations=100, warmup=10)
    results = run_through(cluster(4, fabric=Fabric(unlucky=unlucky)), request, clock=lambda: clock[0])
    assert [row.bytes for row in results.collectives] == list(sizes)
    assert {each for each in steps if each[2] > 3} == {(size, 10, 100) for size in sizes}


def test_quick_mode_finds_a_slow_node_in_two_rounds() -> None:
    slow = {4, 5}  # node 2
    rate = lambda src, dst: 2e8 if {src, dst} & slow else 2e9  # noqa: E731 - a table in a line
    lines = cluster(6, fabric=Fabric(rate=rate))
    results = run_through(lines, ProbeRequest(sizes=(MIB,), pairs="quick"))
    met = {frozenset(results.slots[rank].node for rank in pair) for pair in results.pairs}
    assert len(met) == 5
    slow_pairs = [
        {results.slots[rank].node for rank in pair}
        for pair, each in results.pairs.items()
        if (each.bandwidth_gb_per_s or 0) < 1
    ]
    assert set.intersection(*slow_pairs) == {"gpu-002"}


def test_a_node_may_not_speak_for_others() -> None:
    def unlucky(node: str, step: Step, rank: int) -> Done | bool:
        if node == "gpu-000" and step.what == "collective" and rank == 0:
            lines[0]._receive(node, Done(step=step.id, rank=2, error="a lie"))
            lines[0]._receive(node, Died(rank=3, reason="a lie"))
        return True

    lines = cluster(2, fabric=Fabric(unlucky=unlucky))
    assert run_through(lines).phase == "done"


def test_a_rank_that_dies_while_a_person_looks_leaves_the_verdict_and_takes_no_retest() -> None:
    lines = cluster(2)
    conductor = measured(lines)
    before = dict(conductor.results.pairs)
    lines[0]._receive(lines[0].node, Died(rank=0, reason="killed by SIGKILL"))
    conductor.retest([(0, 2)])
    await_until(conductor, lambda: not conductor.keeps_ranks and all(line.closed for line in lines))
    assert conductor.results.phase == "done"
    assert conductor.results.verdict == ProbeVerdict("ok", "done")
    assert conductor.results.pairs == before
    conductor.close()
