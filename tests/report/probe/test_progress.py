from __future__ import annotations

from gpuwatch.probe.results import ProbedNode
from gpuwatch.report.probe.progress import reported
from tests.report.probe.probes import cluster, inventory, measured, with_pairs
from tests.sentences import Sentences


def test_it_counts_the_nodes_that_have_answered(sentences: Sentences) -> None:
    results = cluster(4, 8, phase="connecting")
    results.nodes = [inventory(1), ProbedNode("gpu-002", problem="no route"), ProbedNode("gpu-003")]
    sentences(reported(results))


def test_it_says_what_is_measured_and_how_long_it_takes() -> None:
    results = with_pairs(cluster(2, 1), lambda _src, _dst: 48.0)
    results.phase = "pairs"
    results.collectives = measured([1, 4])
    results.all_steps, results.done_steps, results.left_s = 86, 12, 31.4
    results.testing = ((0, 1),)
    start = "12/86 steps, 2 rows, 2 links, 31 s left"
    assert reported(results) == f"{start}; gpu-001 GPU 0 -> gpu-002 GPU 0"
    assert reported(results, pairs=False) == start
