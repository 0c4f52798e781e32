"""A rank that only tells of a lost peer is not named with confidence."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch.diagnose.incidents.culprits.waiting_exception import waited_for_another
from gpuwatch.diagnose.model.rank_index import RankIndex
from tests.diagnose.finding import Reporter, places


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("ended", [True, False])
def test_an_exception_that_names_the_rank_it_waited_for_names_no_culprit(*, ended: bool, timed: bool) -> None:
    report = Reporter(places(2, 1))
    line = "timed out waiting for rank 1"
    report.emit(
        "python.exception", 0.0, 0, timed=timed,
        lines=[f"TimeoutError: {line}"], fields={"exception": "TimeoutError", "what": line},
    )  # fmt: skip
    if ended:
        report.emit("rank.exit_error", 0.5, 0, exitcode=1)
    (incident,) = report.judged()
    assert (incident.rank, incident.confidence) == (None, "low")


@pytest.mark.parametrize(
    ("exception", "what", "waited"),
    [
        ("TimeoutError", "timed out waiting for rank 1", True),
        ("RuntimeError", "no answer of peer 1", True),
        ("RuntimeError", "lost worker 1", True),
        ("TimeoutError", "timed out waiting for rank 0", False),
        ("TimeoutError", "read of s3://data timed out", False),
        ("ValueError", "rank 1 is no even number", False),
        ("TimeoutError", "timed out waiting for node gpu-002", True),
        ("RuntimeError", "no answer from gpu-002.", True),
        ("RuntimeError", "timed out waiting for peer 10.0.0.2", True),
        ("TimeoutError", "timed out waiting for node gpu-001", False),
        ("TimeoutError", "timed out waiting for peer 10.0.0.1", False),
        ("TimeoutError", "connection to host hub.example.org timed out", False),
    ],
)
def test_only_a_wait_for_another_rank_counts(exception: str, what: str, *, waited: bool) -> None:
    report = Reporter(places(2, 1))
    fields = {"exception": exception, "what": what}
    report.emit("python.exception", 0.0, 0, lines=[f"{exception}: {what}"], fields=fields)
    (alert,) = report.alerts()
    assert waited_for_another(alert, [alert], RankIndex(places(2, 1))) is waited


@pytest.mark.parametrize(
    ("exception", "what", "nodes", "sure"),
    [
        ("TimeoutError", "timed out", 2, False),
        ("ConnectionAbortedError", "[Errno 103] Software caused connection abort", 2, False),
        ("TimeoutError", "timed out", 1, True),
        ("TimeoutError", "read of s3://data timed out", 2, True),
        ("ValueError", "no label", 2, True),
    ],
)
def test_who_waited_for_nobody_that_is_named_is_no_sure_culprit(
    exception: str, what: str, nodes: int, *, sure: bool
) -> None:
    report = Reporter(places(nodes, 1))
    fields = {"exception": exception, "what": what}
    report.emit("python.exception", 0.0, 0, lines=[f"{exception}: {what}"], fields=fields)
    (incident,) = report.judged()
    assert (incident.rank, incident.confidence != "low") == (0, sure)


@pytest.mark.parametrize(("node", "waited"), [("gpu-002", True), ("gpu-001", False)])
def test_a_time_out_beside_another_lost_node_is_a_consequence(node: str, *, waited: bool) -> None:
    report = Reporter(places(2, 1))
    fields = {"exception": "TimeoutError", "what": ""}
    report.emit("python.exception", 0.0, 0, lines=["TimeoutError"], fields=fields)
    (alert,) = report.alerts()
    lost = structs.replace(alert, id="lost", code="node_lost", node=node, rank=None)
    assert waited_for_another(alert, [alert, lost], RankIndex(places(2, 1))) is waited
