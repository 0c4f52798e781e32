"""A file that nodes share, read on one node alone: its tables name a rank on a host that is not watched."""

from __future__ import annotations

from typing import Any

from gpuwatch.fleet.jobs.places import Places
from tests.diagnose.finding import Reporter


def table(host: str, rank: int) -> dict[str, Any]:
    lines = [f"  host      : {host}", f"  rank      : {rank} (local_rank: 0)", "  exitcode  : 1 (pid: 44)"]
    return {"lines": lines, "key": 2, "node": "gpu-001", "file": "/shared/run.log"}


def test_the_rank_that_failed_first_is_named_and_not_the_follower() -> None:
    report = Reporter(Places((), {"gpu-001": "gpu-001"}, live=True))
    report.emit("rank.exit_error", 0.0, **table("gpu-009", 2))
    report.emit("rank.exit_error", 2.0, **table("gpu-001", 1))
    (incident,) = report.judged()
    assert (incident.rank, incident.node, incident.confidence) == (2, None, "medium")
