"""A line of a shared file is one finding, unless a node plays it down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gpuwatch import wire
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.shared_findings import MAX_REPEATS
from gpuwatch.link.stream.inbox import LinkStatus
from tests.report.fleets import NODE_TIME, feed, hello, plan, process

FILE = "/shared/rank_3.log"


def report(
    fleet: Fleet,
    node: str,
    severity: wire.Severity = "critical",
    role: wire.Role = "root",
    *,
    mark: str | None = "7:400:9",
    closed: bool = False,
    writers: Sequence[int] = (),
    **facts: Any,
) -> None:
    files = [wire.LogFile(FILE, identity="nfs:nas:/export:7", fingerprint=mark, pids=list(writers))]
    facts = {"id": 1, "at": NODE_TIME, **facts}
    finding = wire.Finding(
        t=NODE_TIME, seq=2, rule="oom.cuda", severity=severity, role=role, file=FILE, offset=40,
        lines=["CUDA out of memory"], closed=closed, **facts,
    )  # fmt: skip
    feed(
        fleet,
        node,
        LinkStatus("live"),
        hello(1, host=node),
        wire.Logs(t=NODE_TIME, seq=1, files=files),
        finding,
    )


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


@pytest.mark.parametrize("mark", ["7:400:8", None])
def test_a_node_that_states_a_files_identity_alone_sees_another_file(mark: str | None) -> None:
    """The name of the file system and an inode can be guessed; size, last write and ends cannot."""
    fleet = Fleet(plan("gpu-001", "gpu-002"))
    report(fleet, "gpu-001", mark=mark)
    report(fleet, "gpu-002")
    identities = {file.identity for node in fleet.nodes.values() for file in node.logs}
    assert len(identities) == len(fleet.findings) == 2


def test_a_file_that_was_once_the_same_stays_one_while_it_grows() -> None:
    fleet = Fleet(plan("gpu-001", "gpu-002"))
    for mark in ("7:400:9", "7:500:12"):
        report(fleet, "gpu-001", mark=mark)
        report(fleet, "gpu-002", mark="7:400:9")
    assert len({file.identity for node in fleet.nodes.values() for file in node.logs}) == 1


@pytest.mark.parametrize("first", ["gpu-001", "gpu-002"])
def test_a_line_that_one_node_calls_over_stays_open_by_another_that_reads_the_file(first: str) -> None:
    fleet = Fleet(plan("gpu-001", "gpu-002"))
    for node in sorted(fleet.nodes, key=lambda name: name != first):
        report(fleet, node, closed=node == "gpu-001")
    assert any(not found.finding.closed for found in fleet.findings.values())


def test_the_time_of_a_ranks_line_is_that_of_the_node_where_the_rank_runs() -> None:
    """Another node may report the line first, with a time of its own, and a writer that it names."""
    fleet = Fleet(plan("gpu-001", "gpu-002"))
    report(fleet, "gpu-002", writers=[9], rank=3, at=NODE_TIME - 86_400)
    feed(fleet, "gpu-001", wire.Ranks(t=NODE_TIME, seq=1, processes=[process(77, 0, rank=3)]))
    report(fleet, "gpu-001", writers=[77], rank=3)
    assert [(found.node, found.finding.at) for found in fleet.findings.values()] == [("gpu-001", NODE_TIME)]
    report(fleet, "gpu-002", writers=[9], rank=3, at=NODE_TIME - 86_400, host="gpu-009")
    report(fleet, "gpu-002", writers=[9], rank=3, at=NODE_TIME - 86_400, id=2)
    reported = [found for found in fleet.findings.values() if found.node == "gpu-001"]
    assert [(found.finding.at, found.finding.host) for found in reported] == [(NODE_TIME, None)]


def test_a_line_that_a_new_attempt_writes_again_is_another_finding() -> None:
    """The job truncates its log and fails at the same byte: an agent reports no event twice."""
    fleet = Fleet(plan("gpu-001", "gpu-002"))
    for number in (1, 2):
        for node in fleet.nodes:
            report(fleet, node, id=number)
    assert [(found.node, found.finding.id) for found in fleet.findings.values()] == [
        ("gpu-001", 1),
        ("gpu-001", 2),
    ]


def test_a_line_that_a_node_repeats_without_an_end_costs_bounded_room() -> None:
    fleet = Fleet(plan("gpu-001", "gpu-002"))
    report(fleet, "gpu-001")
    for number in range(1, 5 * MAX_REPEATS):
        report(fleet, "gpu-002", id=number)
    reported = [found.node for found in fleet.findings.values()]
    assert len(reported) <= MAX_REPEATS
    assert "gpu-001" in reported
