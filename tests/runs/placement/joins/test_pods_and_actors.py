"""Ranks and nodes of pods, containers and actors, from what their managers state of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.runs.model.pod_rank import PodFacts, ranks_by_index
from tests.runs.placement.joins.places import STEPS, place

INDEX = "batch.kubernetes.io/job-completion-index"
KUBEFLOW = {
    "training.kubeflow.org/replica-index": "2",
    "training.kubeflow.org/replica-type": "worker",
    "training.kubeflow.org/operator-name": "pytorchjob-controller",
}
LOST = "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error"


@pytest.mark.parametrize(
    ("values", "rank"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8"}, 3),
        ({"PET_NODE_RANK": "2", "PET_NPROC_PER_NODE": "1"}, 2),
        ({"PET_NODE_RANK": "2", "PET_NPROC_PER_NODE": "auto", "nvidia.com/gpu": "1"}, 2),
        (KUBEFLOW, 3),
        ({"PET_NODE_RANK": "2", "PET_NPROC_PER_NODE": "8"}, None),
        ({"RANK": "2", "nvidia.com/gpu": "8"}, None),
        ({**KUBEFLOW, "nvidia.com/gpu": "4"}, None),
        ({"OMPI_COMM_WORLD_RANK": "5", "nvidia.com/gpu": "8"}, 5),
        ({INDEX: "5"}, None),
    ],
)
def test_a_pod_with_one_process_has_a_rank(values: dict[str, str], rank: int | None) -> None:
    facts = PodFacts()
    for key, value in values.items():
        facts.take(key, value)
    assert facts.rank == rank


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        ([0, 1, 2], True),
        ([2, 0, 1], True),
        ([0], False),
        ([0, 2], False),
        ([0, 0, 1], False),
        ([0, None], False),
    ],
)
def test_the_numbers_of_pods_are_ranks_if_complete(indexes: list[int | None], expected: bool) -> None:
    assert ranks_by_index(indexes) == expected


def pod(number: int, code: int, reason: str, gpus: str) -> dict[str, Any]:
    ended = {
        "exitCode": code,
        "reason": reason,
        "finishedAt": f"2026-10-12T03:1{code == 1:d}:02Z",
    }
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": f"pre-workers-0-{number}-x{number}k", "labels": {INDEX: str(number)}},
        "spec": {
            "nodeName": f"gke-h{number}-q",
            "containers": [{"name": "jax", "resources": {"limits": {"nvidia.com/gpu": gpus}}}],
        },
        "status": {"phase": "Failed", "containerStatuses": [{"name": "jax", "state": {"terminated": ended}}]},
    }  # fmt: skip


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize(("gpus", "rank"), [("1", 2), ("8", None)])
def test_the_pod_that_was_killed_leads(tmp_path: Path, compact: bool, gpus: str, rank: int | None) -> None:
    items = [pod(n, 137 if n == 2 else 1, "OOMKilled" if n == 2 else "Error", gpus) for n in range(4)]
    whole = {"apiVersion": "v1", "kind": "List", "items": items}
    text = json.dumps(whole, separators=(",", ":")) if compact else json.dumps(whole, indent=2)
    found = place(tmp_path, {"pods.json": [text], "train.log": [*STEPS, LOST]})
    assert found[0] == rank
    assert found[1] in ("gke-h2-q", "pre-workers-0-2-x2k")


def actor(head: str) -> list[str]:
    return [
        f"{head}The actor died unexpectedly before finishing this task.",
        f"{head}\tclass_name: RayTrainWorker",
        f"{head}\tpid: 4102",
        f"{head}\tip: 10.6.1.5",
    ]


@pytest.mark.parametrize("head", ["(TrainController pid=79312) ", ""])
def test_an_actor_is_the_rank_of_its_pid(tmp_path: Path, head: str) -> None:
    table = [
        f"(TrainController pid=79312) hostname='ray-w{n}', node_id='b15', node_ip='10.6.1.{n + 3}',"
        f" pid={4100 + n}), distributed_context=DistributedContext(world_rank={n}, world_size=4)"
        for n in range(4)
    ]
    first = "ray.exceptions.ActorDiedError: " if not head else ""
    lines = actor(head)
    assert place(tmp_path, {"driver.log": [*table, *STEPS, first + lines[0], *lines[1:]]})[:2] == (
        2,
        "ray-w2",
    )


def test_the_record_of_the_worker_that_raised_leads_those_that_were_stopped(tmp_path: Path) -> None:
    def record(rank: int) -> str:
        message: object = {"message": "RuntimeError: CUDA error: an illegal memory access was encountered"}
        message = message if rank == 6 else f"Signal 15 (SIGTERM) received by PID {500 + rank}"
        metadata = {
            "run_id": "r7", "global_rank": rank, "worker_id": str(500 + rank), "hostname": f"syv-{rank // 4}",
            "state": "FAILED", "raw_error": json.dumps({"message": message}),
        }  # fmt: skip
        return json.dumps({"name": "torchelastic.worker.status.FAILED", "metadata": metadata})

    assert place(tmp_path, {"err.log": [*STEPS, *map(record, range(8))]})[:2] == (6, "syv-1")


def test_a_container_is_on_the_node_that_its_manager_gave_it(tmp_path: Path) -> None:
    given = [
        f"INFO Container: [ContainerId: container_1556600737538_0007_01_00000{n + 2}, NodeId: gpuw{n}:43]"
        for n in range(3)
    ]
    ended = "ERROR Master: container_1556600737538_0007_01_000003 exited with exit status 137"
    assert place(tmp_path, {"master.log": [*given, *STEPS, ended]})[1] == "gpuw1"
