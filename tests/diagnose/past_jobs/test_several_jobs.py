"""Folders with the logs of several jobs: each is judged by itself, a fault that they share once."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.score import scanned

BEGAN = datetime(2026, 11, 20, 8, tzinfo=timezone.utc)
MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. "
    "GPU 1 has a total capacity of 79.15 GiB."
)


def write_job(
    folder: Path,
    last: int,
    *,
    ranks: int = 4,
    after_s: float = 0.0,
    fails: int | None = None,
    waits: bool | None = None,
    file: str = "rank_{rank}.log",
) -> datetime:
    """Write the logs of a job of 100 steps; return the time of its last step.

    `fails`: the rank that runs out of memory; `waits`: whether the other ranks time out.
    """
    waits = fails is not None if waits is None else waits
    ended = BEGAN + timedelta(seconds=after_s + 2 * last)
    for rank in range(ranks):
        lines = [
            f"{BEGAN + timedelta(seconds=after_s + 2 * step):%Y-%m-%dT%H:%M:%SZ} INFO [rank{rank}] "
            f"step {step}/100 loss {3 - step / 100:.4f} lr 1e-4"
            for step in range(1, last + 1)
        ]
        if rank == fails:
            lines += [f"{ended:%Y-%m-%dT%H:%M:%SZ} ERROR [rank{rank}] {MEMORY}"]
        elif waits:
            late = ended + timedelta(seconds=600)
            lines += [
                f"{late:%Y-%m-%dT%H:%M:%SZ} [rank{rank}]:[E ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog "
                f"caught collective operation timeout: WorkNCCL(SeqNum={9 * last}, OpType=ALLREDUCE, "
                "NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600029 milliseconds before timing "
                "out."
            ]
        path = folder / file.format(rank=rank, node=rank // 2 + 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (ended.timestamp(),) * 2)
    return ended


def found(facts: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return job, rank, class, severity and followers of each incident."""
    keys = ("job", "rank", "class", "severity", "followers")
    return [tuple(each[key] for key in keys) for each in facts["incidents"]]


@pytest.mark.parametrize(
    ("second", "after_s", "file"),
    [(60, 60.0, "rank_{rank}.log"), (40, 25.0, "node-{node}/rank_{rank}.log")],
)
def test_each_of_two_failed_jobs_has_its_incident(
    tmp_path: Path, second: int, after_s: float, file: str
) -> None:
    write_job(tmp_path / "llama", 40, fails=1, file=file)
    write_job(tmp_path / "bert", second, after_s=after_s, fails=3, file=file)
    facts = scanned(tmp_path)
    assert found(facts) == [
        ("llama", 1, "oom.cuda", "critical", 3),
        ("bert", 3, "oom.cuda", "critical", 3),
    ]
    assert [each["headline"].split(":")[0] for each in facts["incidents"]] == ["llama", "bert"]
    ends = {each["name"]: (each["state"], each["step"]) for each in facts["outcome"]["jobs"]}
    assert ends == {"llama": ("stopped", 40), "bert": ("stopped", second)}


@pytest.mark.parametrize(("ranks", "after_s"), [(4, 60.0), (4, 14_400.0), (2, 60.0)])
def test_a_job_beside_a_failed_one_does_not_change_it(tmp_path: Path, ranks: int, after_s: float) -> None:
    write_job(tmp_path / "llama", 40, fails=1)
    write_job(tmp_path / "bert", 100, ranks=ranks, after_s=after_s)
    facts = scanned(tmp_path)
    assert found(facts) == [("llama", 1, "oom.cuda", "critical", 3)]
    assert [each["state"] for each in facts["outcome"]["jobs"]] == ["stopped", "finished"]
    assert facts["outcome"]["step"] == 40


def test_a_fault_that_two_jobs_share_is_one_incident(tmp_path: Path) -> None:
    ended = write_job(tmp_path / "llama", 40, waits=True)
    write_job(tmp_path / "bert", 60, after_s=-40.0, waits=True)
    lost = ended + timedelta(seconds=1)
    (tmp_path / "dmesg-node-1.log").write_text(
        f"{lost:%Y-%m-%dT%H:%M:%S}+00:00 node-1 kernel: NVRM: Xid (PCI:0000:4e:00): 79, pid=4711, "
        "name=python, GPU has fallen off the bus.\n"
    )
    facts = scanned(tmp_path)
    assert [(each["class"], each["node"], each["followers"]) for each in facts["incidents"]] == [
        ("gpu.xid.fell_off", "node-1", 8)
    ]
    assert {"llama", "bert"} <= set(facts["incidents"][0]["headline"].split(":")[0].split())


def test_jobs_that_each_state_the_loss_of_one_node_share_an_incident(tmp_path: Path) -> None:
    for name, last, after_s in (("llama", 40, 0.0), ("bert", 60, -40.0)):
        ended = write_job(tmp_path / name, last, after_s=after_s, waits=True)
        (tmp_path / name / "driver.out").write_text(
            f"{ended:%Y-%m-%dT%H:%M:%SZ} WARN The node with node id: 9a8b7c and address: 10.0.0.2 and node "
            "name: 10.0.0.2 has been marked dead because the detector has missed too many heartbeats from "
            "it.\n"
        )
    facts = scanned(tmp_path)
    assert [(each["class"], each["node"]) for each in facts["incidents"]] == [("ray.node_dead", "10.0.0.2")]


def test_folders_of_one_name_are_named_by_the_folders_above(tmp_path: Path) -> None:
    write_job(tmp_path / "llama" / "logs", 40, fails=1)
    write_job(tmp_path / "bert" / "logs", 60, after_s=60.0, fails=3)
    assert [each["job"] for each in scanned(tmp_path)["incidents"]] == ["llama/logs", "bert/logs"]


def test_different_logs_of_one_job_are_not_two_jobs(tmp_path: Path) -> None:
    write_job(tmp_path / "stdout", 40, fails=1)
    write_job(tmp_path / "metrics", 40)
    facts = scanned(tmp_path)
    assert found(facts) == [(None, 1, "oom.cuda", "critical", 3)]
    assert facts["outcome"]["jobs"] == []
