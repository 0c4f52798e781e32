"""A launcher's log on one node has the lines of ranks on others."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.model.alert import Alert, Proof
from tests.diagnose.finding import T0, Reporter, places


@pytest.mark.parametrize(
    ("ended_on", "node"), [(("gpu-002",), "gpu-002"), (("gpu-002", "gpu-003"), "gpu-001")]
)
def test_the_node_is_that_on_which_the_rank_was_seen_to_end(ended_on: tuple[str, ...], node: str) -> None:
    report = Reporter(places(0))
    report.emit("oom.cuda", 0.0, 2, "gpu-001", file="/jobs/mpi.out", timed=False, job="4711")
    report.emit("rank.exit_error", 6.0, 2, "gpu-001", file="/jobs/mpi.out", timed=False, job="4711")
    ends = [
        Alert(
            id=f"rank_ended:{name}", code="rank.exit_error", severity="critical", title="", text="",
            proof=(Proof("event", "pid 8166 ended with exit code 1", T0 + 5, node=name),), role="first",
            node=name, rank=2, job="4711", first=T0 + 5, last=T0 + 5, fields={"exitcode": 1},
        )
        for name in ended_on
    ]  # fmt: skip
    (incident,) = report.judged(ends)
    assert (incident.code, incident.rank, incident.node) == ("oom.cuda", 2, node)
