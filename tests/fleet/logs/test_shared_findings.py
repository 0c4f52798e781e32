"""A line of a shared file is one finding, unless a node plays it down."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from gpuwatch.fleet.fleet import Fleet
from tests.report.fleets import NODE_TIME, feed, hello, plan

FILE = "/shared/rank_3.log"


def report(fleet: Fleet, node: str, severity: wire.Severity, role: wire.Role = "root") -> None:
    files = [wire.LogFile(FILE, identity="nfs:nas:/export:7")]
    finding = wire.Finding(
        t=NODE_TIME, seq=2, id=1, rule="oom.cuda", severity=severity, role=role, file=FILE, offset=40,
        at=NODE_TIME, lines=["CUDA out of memory"],
    )  # fmt: skip
    feed(fleet, node, hello(1, host=node), wire.Logs(t=NODE_TIME, seq=1, files=files), finding)


def test_two_nodes_that_read_one_line_tell_it_once() -> None:
    fleet = Fleet(plan("gpu-001", "gpu-002"))
    for node in fleet.nodes:
        report(fleet, node, "critical")
    assert [found.node for found in fleet.findings.values()] == ["gpu-001"]


@pytest.mark.parametrize(("severity", "role"), [("info", "root"), ("critical", "hint")])
def test_a_node_that_plays_a_line_down_hides_it_from_nobody(severity: wire.Severity, role: wire.Role) -> None:
    fleet = Fleet(plan("gpu-001", "gpu-002"))
    report(fleet, "gpu-001", severity, role)
    report(fleet, "gpu-002", "critical")
    reported = {(found.node, found.finding.severity, found.finding.role) for found in fleet.findings.values()}
    assert ("gpu-002", "critical", "root") in reported
