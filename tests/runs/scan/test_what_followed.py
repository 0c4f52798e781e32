"""What followed decides: a lost node, signal or peer beside a job that went on, ended, or did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.corpus.score import scanned

DEAD = (
    "(raylet) The node with node id: 9c1f3a and address: 10.1.0.7 and node name: 10.1.0.7 has been marked"
    " dead because the detector has missed too many heartbeats from it."
)
SIGNALLED = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 400 got signal: 15"


def steps(first: int, last: int, total: int = 300) -> list[str]:
    return [
        f"2026-10-12 03:{n // 20:02}:{n * 3 % 60:02} INFO step {n}/{total} loss {4 / n:.4f}"
        for n in range(first, last)
    ]


def facts(folder: Path, lines: list[str]) -> dict[str, Any]:
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    return scanned(folder)


def alarms(found: dict[str, Any]) -> list[str]:
    return [
        each["class"]
        for each in found["incidents"] + found["alerts"]
        if each["severity"] in ("error", "critical")
    ]


@pytest.mark.parametrize("lines", [[*steps(1, 100), DEAD, *steps(100, 301), "Training completed"]])
def test_a_lost_node_of_a_job_that_finished_is_no_error(tmp_path: Path, lines: list[str]) -> None:
    assert alarms(facts(tmp_path, lines)) == []


def test_a_lost_node_at_the_end_of_an_unfinished_job_is_one(tmp_path: Path) -> None:
    assert alarms(facts(tmp_path, [*steps(1, 100), DEAD])) == ["ray.node_dead"]


def test_a_signal_below_the_end_is_no_error(tmp_path: Path) -> None:
    assert alarms(facts(tmp_path, [*steps(1, 301), "training finished", "export ok", SIGNALLED])) == []


def test_a_signal_before_the_end_is_one(tmp_path: Path) -> None:
    assert alarms(facts(tmp_path, [*steps(1, 200), SIGNALLED])) == ["launch.agent_signalled"]


@pytest.mark.parametrize(
    "line",
    [
        "[exiting program after 230.11 minutes] datetime: 2026-10-12 03:15:10",
        "reached wall-clock budget of 4.0 h, stopping cleanly",
        "Stopping training: max_duration 30min was reached",
        "time budget used up, leaving the loop",
    ],
)
def test_an_end_by_the_jobs_own_limit_is_no_stop(tmp_path: Path, line: str) -> None:
    assert facts(tmp_path, [*steps(1, 200, 5000), line])["outcome"]["state"] == "finished"


@pytest.mark.parametrize(
    "line", ["time limit is 4 h", "rendezvous timeout reached", "retry budget exhausted"]
)
def test_other_limits_are_no_end(tmp_path: Path, line: str) -> None:
    assert facts(tmp_path, [*steps(1, 200, 5000), line])["outcome"]["state"] == "stopped"


@pytest.mark.parametrize("peer", ["[10.7.0.13]:2100{n}", "[10.7.0.13]", "c13.fab<5000{n}>"])
def test_several_that_lose_one_peer_are_an_incident_at_that_peer(tmp_path: Path, peer: str) -> None:
    lost = [
        f"2026-10-12 03:10:00 | ERROR | rank {n}: gather failed: Connection closed by peer {peer.format(n=n)}"
        for n in (0, 1, 3, 5)
    ]
    found = facts(tmp_path, [*steps(1, 200), *lost])["incidents"]
    assert [(each["rank"], each["node"]) for each in found] == [
        (None, peer.strip("[]").split("]")[0].split("<")[0])
    ]


def test_one_that_loses_a_peer_at_a_regular_end_is_none(tmp_path: Path) -> None:
    line = "2026-10-12 03:16:00 | ERROR | rank 1: Connection closed by peer [10.7.0.13]:21000"
    assert alarms(facts(tmp_path, [*steps(1, 301), line, "Training completed"])) == []
