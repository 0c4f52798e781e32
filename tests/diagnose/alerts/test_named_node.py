"""The node of a fault from prose: host names in the forms that blame them, and decoys that do not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gpuwatch.diagnose.alerts.placement.named_node import named_node
from tests.runs.ended_logs import report

NAMES = (
    "gpu-b03",
    "n1",
    "cn12",
    "node-b07",
    "dgx-a100-17",
    "ip-10-0-3-7",
    "gpu003.cluster.local",
    "r12u07n3",
)
OF_ANOTHER = (
    "host {} is unreachable",
    "ERROR launcher: node {} is not responding, giving up",
    "Lost heartbeat from node {} for 120 s",
    "no response from host {}",
    "could not reach node '{}'",
    "worker node {} went down",
    "machine {} has stopped responding",
    "node {} was evicted",
    "the machine {} crashed",
    "host {}: unreachable",
)
OF_ITS_OWN = (
    "CUDA out of memory on node {}",
    "rank 5 on host {} failed with exit code 1",
    "event=worker_lost node={} reason=heartbeat",
    '{{"error": "device lost", "node": "{}"}}',
    "training process died (hostname: {})",
)
ELSEWHERE = (
    "nfs: server {} not responding, still trying",
    "restarting the job on node {}",
    "failed; retrying on host {}",
    "rank 3 failed, but all is healthy on node {}",
    "cannot bind; will fall back on node {}",
    "connection to the master on node {} was refused",
    "connect failed host={} port=29500",
    "node gpu-a01 lost its connection to node {}",
    "no route from host {} to host gpu-a01",
    "checkpoint stored on host {} is corrupt",
    "moved from node {} to node gpu-a09 after a failure",
)
DECOYS = (
    "rank3", "rank_3.log", "rank-3", "gpu3", "cuda:0", "step-100", "epoch3", "run-7", "train.log",
    "node1.log", "0", "17", "job-1234", "a100", "h100", "mi300x", "attempt_0", "the", "local", "localhost",
    "world-16", "worker.out", "python3.10/site-packages", "user@host1",
)  # fmt: skip


@pytest.mark.parametrize("template", OF_ANOTHER + OF_ITS_OWN)
def test_a_host_name_in_a_form_that_blames_it_is_the_node(template: str) -> None:
    for name in NAMES:
        for line in (template.format(name), f"2026-03-04 10:00:00 ERROR {template.format(name)}"):
            found = named_node(line)
            assert found is not None, line
            assert found == (name, template in OF_ITS_OWN)


@pytest.mark.parametrize("template", OF_ANOTHER + OF_ITS_OWN)
def test_what_has_no_form_of_a_host_name_is_no_node(template: str) -> None:
    assert [word for word in DECOYS if named_node(template.format(word)) is not None] == []


@pytest.mark.parametrize("template", ELSEWHERE)
def test_a_node_where_the_fault_is_not_is_not_named(template: str) -> None:
    assert [name for name in NAMES if named_node(template.format(name)) is not None] == []


def test_two_nodes_in_one_line_name_none() -> None:
    generator = random.Random(7)
    for _ in range(300):
        one, other = generator.sample(NAMES, 2)
        left, right = (generator.choice(OF_ANOTHER + OF_ITS_OWN) for _ in range(2))
        assert named_node(f"{left.format(one)}; {right.format(other)}") is None


@pytest.mark.parametrize(
    ("path", "line", "place"),
    [
        ("train.log", "host gpu-b03 is unreachable", (None, "gpu-b03")),
        ("train.log", "training failed: CUDA out of memory on node gpu-b03", (None, "gpu-b03")),
        ("rank_3.log", "training failed: CUDA out of memory on node gpu-b03", (3, "gpu-b03")),
        ("rank_3.log", "lost contact with node gpu-b03", (None, "gpu-b03")),
        ("gpu-a01/rank_3.log", "host gpu-b03 is unreachable", (None, "gpu-b03")),
        ("train.log", "CUDA out of memory on node rank_5.log", (None, None)),
    ],
)
def test_scan_places_the_fault(tmp_path: Path, path: str, line: str, place: tuple[object, object]) -> None:
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(f"2026-03-04T10:00:00 ERROR {line}\n")
    found = report(tmp_path)
    alerts = [*found.outside, *(alert for each in found.incidents for alert in each.alerts)]
    assert [(alert.rank, alert.node) for alert in alerts] == [place]
