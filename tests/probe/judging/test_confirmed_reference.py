"""No node is named for being slower than what one other node claims of itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuwatch.probe.judging.judge import judge
from gpuwatch.probe.judging.links.links import graded
from gpuwatch.probe.results import GpuResult
from gpuwatch.tui.links.matrix_model import LinkBoard
from tests.probe.judging.fabric import Fabric, into, through


@given(
    nodes=st.integers(3, 12),
    liar=st.integers(0, 11),
    factor=st.floats(1.2, 4_000.0),
    per_node=st.integers(1, 2),
    gpus=st.booleans(),
)
def test_a_node_that_claims_more_than_is_true_gets_no_other_node_named(
    nodes: int, liar: int, factor: float, per_node: int, gpus: bool
) -> None:
    fabric = Fabric(nodes, per_node, gpus=gpus, jitter=0.04)
    verdict = judge(fabric.slow(into(f"host-{liar % nodes}"), to=factor).results())
    assert verdict.culprits == ()
    assert verdict.status in {"ok", "noisy"}


@pytest.mark.parametrize("nodes", [4, 6, 12])
def test_the_claimant_is_stated_and_a_slow_node_beside_it_is_named(nodes: int) -> None:
    fabric = Fabric(nodes).slow(into("host-0"), to=2.5)
    assert "host-0" in judge(fabric.results()).sentence
    fabric.slow(through("host-2"))
    assert [each.name for each in judge(fabric.results()).culprits] == ["host-2"]


@pytest.mark.parametrize("nodes", [3, 4, 8])
def test_fast_gpus_of_one_node_make_no_gpu_of_another_slow(nodes: int) -> None:
    results = Fabric(nodes, 8, gpus=True).results()
    results.gpus = {
        slot.rank: GpuResult(slot.rank, matmul_flops=7e14 * (2.5 if slot.node == "host-0" else 1.0))
        for slot in results.slots
    }
    assert judge(results).culprits == ()
    results.gpus[12] = replace(results.gpus[12], matmul_flops=2e14)
    assert [each.name for each in judge(results).culprits] == ["host-1 GPU 4"]


def test_the_matrix_on_the_screen_has_the_same_grades() -> None:
    results = Fabric(6, 2, jitter=0.04).slow(into("host-3"), to=2.5).slow(through("host-1")).results()
    board = LinkBoard()
    board.take(results)
    shown = [board.peers(place).grade for place in range(len(board.pairs))]
    assert shown == [link.grade for link in graded(results)]
