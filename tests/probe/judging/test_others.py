"""What is not a link: ranks that are gone, wrong results, GPUs, collectives, and how far the probe came."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuwatch.probe.judging.judge import judge
from gpuwatch.probe.probe_request import Collective, ProbeRequest
from gpuwatch.probe.results import CollectiveResult, GpuResult, ProbedNode, Results, Unreachable
from tests.probe.judging.fabric import Fabric, both_ways, through
from tests.sentences import Sentences

MIB = 1 << 20
ALIKE = GpuResult(5, matmul_flops=6e14, copy_bps=1.3e12, h2d_bps=5.5e10, d2h_bps=5.4e10)


def row(
    op: Collective, size: int = MIB, least_waiting: int | None = None, **more: object
) -> CollectiveResult:
    """A collective that went well unless more says otherwise."""
    facts: dict[str, object] = {"p50_s": 0.01, "busbw_gb_per_s": 1.0, "correct": True, **more}
    return CollectiveResult(op, size, least_waiting=least_waiting, **facts)  # type: ignore[arg-type]


def names(results: Results) -> list[tuple[str, str]]:
    """Kind and name of the culprits."""
    return [(each.kind, each.name) for each in judge(results).culprits]


def test_a_crashed_rank_is_the_culprit_and_explains_its_links(sentences: Sentences) -> None:
    results = Fabric(4).dead(through("host-2"), "Connection closed by peer").results()
    results.phase, results.reason = "failed", "all_reduce of 1 MiB: rank 2 (host-2) died: killed by SIGKILL"
    results.gone = {2: "died: killed by SIGKILL"}
    results.collectives = [row("all_reduce", p50_s=None, correct=None, error="rank 2 (host-2) died: ...")]
    verdict = judge(results)

    assert (verdict.status, names(results)) == ("failed", [("node", "host-2")])
    sentences(verdict.sentence)
    assert verdict.evidence[0] == results.reason


def test_a_rank_of_many_on_its_node_is_named_by_its_gpu(sentences: Sentences) -> None:
    results = Fabric(2, 8, gpus=True).results()
    results.phase, results.gone = "failed", {11: "did not join it within 30 s"}
    verdict = judge(results)

    assert names(results) == [("gpu", "host-1 GPU 3")]
    sentences(verdict.sentence)


def test_a_lost_node_is_one_culprit(sentences: Sentences) -> None:
    results = Fabric(2, 8, gpus=True).results()
    results.gone = dict.fromkeys(range(8, 16), "host-1 was lost: the connection broke")

    assert names(results) == [("node", "host-1")]
    sentences(judge(results).sentence)


def test_a_node_that_was_left_out_is_reported_once(sentences: Sentences) -> None:
    fabric = Fabric(4, jitter=0.05).dead(through("host-3"))
    fabric.unreachable = [Unreachable(f"host-{src}", "host-3", "refused") for src in range(3)]
    results = fabric.results()
    results.nodes = [ProbedNode("host-3", problem="no other node can connect to it (refused)")]
    verdict = judge(results)

    assert (verdict.status, names(results)) == ("failed", [("node", "host-3")])
    sentences(verdict.sentence)


def test_nodes_that_could_not_connect_count_without_a_measurement() -> None:
    fabric = Fabric(3)
    fabric.pairs = {key: pair for key, pair in fabric.pairs.items() if set(key) != {0, 1}}
    fabric.unreachable = [
        Unreachable("host-0", "host-1", "refused"),
        Unreachable("host-1", "host-0", "refused"),
    ]

    assert names(fabric.results()) == [("link", "host-0 <-> host-1")]


def test_a_refused_probe_says_why() -> None:
    results = Results(
        request=ProbeRequest(), started=0.0, phase="refused", reason="GPUs are busy: pid 4711 (train.py)"
    )

    assert (judge(results).status, judge(results).sentence) == ("failed", results.reason)


def test_a_wrong_result_is_bad_at_once(sentences: Sentences) -> None:
    results = Fabric(4).results()
    results.collectives = [row("all_reduce"), row("all_gather", 64 * MIB, correct=False)]
    verdict = judge(results)

    assert (verdict.status, verdict.culprits) == ("bad", ())
    sentences(verdict.sentence)


def test_a_slow_collective_is_not_reported_beside_the_node_that_makes_it_slow() -> None:
    results = Fabric(4).slow(through("host-1")).results()
    results.collectives = [row("all_reduce", busbw_gb_per_s=0.01, nic_gb_per_s=0.01, least_waiting=1)]

    assert names(results) == [("node", "host-1")]
    assert "all_reduce" not in judge(results).sentence


def test_a_collective_that_failed_because_of_a_dead_pair_is_not_reported_twice() -> None:
    results = Fabric(4).dead(both_ways("host-0", "host-1")).results()
    results.collectives = [row("all_reduce", p50_s=None, correct=None, error="rank 0 (host-0): timed out")]

    assert "all_reduce" not in judge(results).sentence


def test_a_collective_that_fails_on_fine_links_is_bad(sentences: Sentences) -> None:
    results = Fabric(4).results()
    results.collectives = [row("all_reduce", p50_s=None, correct=None, error="rank 0 (host-0): timed out")]

    assert judge(results).status == "bad"
    sentences(judge(results).sentence)


def test_what_a_back_end_lacks_is_no_failure() -> None:
    results = Fabric(4).results()
    results.collectives = [
        row("all_to_all", p50_s=None, correct=None, error="it is not supported by this torch's gloo")
    ]

    assert judge(results).status == "ok"


@pytest.mark.parametrize(("pairs", "found"), [(False, [("node", "host-2")]), (True, [])])
def test_the_rank_that_waits_least_is_to_blame_only_where_no_link_was_measured(
    pairs: bool, found: list[tuple[str, str]], sentences: Sentences
) -> None:
    fabric = Fabric(4)
    if not pairs:
        fabric.pairs = {}
    results = fabric.results()
    sweep = [(op, size) for op in ("all_reduce", "all_gather") for size in (MIB, 4 * MIB, 16 * MIB)]
    results.collectives = [row(op, size, least_waiting=2) for op, size in sweep]  # type: ignore[arg-type]
    verdict = judge(results)

    assert names(results) == found
    sentences(" ".join((verdict.sentence, *verdict.evidence)))


def test_one_vote_of_many_names_nobody() -> None:
    fabric = Fabric(4)
    fabric.pairs = {}
    results = fabric.results()
    results.collectives = [
        row("all_reduce", MIB << at, least_waiting=2 if at == 1 else None) for at in range(6)
    ]

    assert (judge(results).status, names(results)) == ("ok", [])


def gpus(results: Results, odd: GpuResult | None = None) -> Results:
    """Every GPU alike; but this one is as it is given."""
    for slot in results.slots:
        results.gpus[slot.rank] = replace(ALIKE, rank=slot.rank)
    if odd is not None:
        results.gpus[odd.rank] = odd
    return results


def test_a_gpu_that_is_slower_than_its_peers(sentences: Sentences) -> None:
    results = gpus(Fabric(1, 8, gpus=True).results(), replace(ALIKE, matmul_flops=2e14))
    verdict = judge(results)

    assert (verdict.status, names(results)) == ("bad", [("gpu", "host-0 GPU 5")])
    sentences(verdict.sentence)


def test_a_gpu_between_the_lines_is_evidence(sentences: Sentences) -> None:
    results = gpus(Fabric(1, 8, gpus=True).results(), replace(ALIKE, h2d_bps=4.4e10))

    assert judge(results).status == "ok"
    sentences(judge(results).evidence)


def test_two_gpus_have_no_peers() -> None:
    results = Fabric(1, 2, gpus=True).results()
    results.gpus = {0: GpuResult(0, matmul_flops=6e14), 1: GpuResult(1, matmul_flops=1e14)}

    assert judge(results).status == "ok"


def test_all_gpus_of_a_node_are_the_node() -> None:
    results = gpus(Fabric(4, 2, gpus=True).results())
    for rank in (4, 5):
        results.gpus[rank] = GpuResult(rank, h2d_bps=1e10)

    assert names(results) == [("node", "host-2")]


def test_what_is_slow_for_the_links_because_of_pcie_is_one_culprit() -> None:
    def at_gpu(src: object, dst: object) -> bool:
        return any((slot.node, slot.local) == ("host-0", 5) for slot in (src, dst))  # type: ignore[attr-defined]

    results = gpus(Fabric(4, 8, gpus=True).slow(at_gpu).results(), replace(ALIKE, h2d_bps=1e10))

    assert names(results) == [("gpu", "host-0 GPU 5")]


def test_an_unfinished_probe_says_so(sentences: Sentences) -> None:
    results = Fabric(4).slow(through("host-1")).results()
    results.phase = "pairs"
    sentences(judge(results).sentence)
    results.phase = "cancelled"
    sentences(judge(results).sentence)


def test_one_pair_of_ranks_has_nothing_to_be_compared_with(sentences: Sentences) -> None:
    sentences(judge(Fabric(2).results()).sentence)
    sentences(judge(Results(request=ProbeRequest(), started=0.0)).sentence)


def test_a_probe_without_any_number_is_not_ok(sentences: Sentences) -> None:
    results = Fabric(2).results()
    results.pairs, results.request = {}, ProbeRequest(budget_s=1.0)
    verdict = judge(results)

    assert verdict.status == "failed"
    sentences(verdict.sentence)
    alone = judge(Fabric(1).results())
    assert alone.status == "failed"
    sentences(alone.sentence)
