"""The words of one node clear no fault of another, unless it runs the rank that goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from gpuwatch.diagnose.error_outcome.recovery_by_steps import FINISHED, with_outcomes
from gpuwatch.diagnose.error_outcome.reporting_nodes import ReportingNodes
from gpuwatch.diagnose.error_outcome.step_track import Mark, StepTrack
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.wire import Severity
from tests.diagnose.finding import T0

FILE = "/logs/rank_3.log"
GOOD = RankPlace(3, "good", "4711", pid=100)


def line(code: str, node: str, *, rank: int | None = 3, at: float = T0) -> Alert:
    proof = Proof("line", "words", at, node=node, file=FILE, offset=9000 if code == FINISHED else 1000)
    severity: Severity = "critical" if code != FINISHED else "info"
    alert = Alert(code, code, severity, code, code, (proof,), rank=rank, first=at, last=at)
    return structs.replace(alert, id=f"{code} {node}", node=node, job="4711")


def steps(node: str, rank: int = 3) -> StepTrack:
    marks = [Mark(40 + n, T0 + 10 + n, None) for n in range(3)]
    return StepTrack(node, f"/{node}/rank_{rank}.log", rank, "4711", marks, 43)


@pytest.mark.parametrize(
    ("places", "node", "expected"),
    [
        ([GOOD], "evil", "critical"),
        ([GOOD], "good", "info"),
        ([GOOD, replace(GOOD, node="evil", rank=5)], "evil", "critical"),  # it runs another rank of the job
        ([GOOD, replace(GOOD, node="evil", job="9")], "evil", "critical"),
        ([GOOD, replace(GOOD, node="evil", pid=None, logs=(FILE,))], "evil", "critical"),  # only a log of it
        ([GOOD, replace(GOOD, node="n2")], "n2", "info"),  # the rank was started anew there
        ([], "n2", "info"),  # the job ended before anybody looked
    ],
)
def test_later_steps_count_from_the_node_that_runs_the_rank(
    places: list[RankPlace], node: str, expected: str
) -> None:
    (found,) = with_outcomes([line("oom.cuda", "good")], [steps(node)], ReportingNodes(places))
    assert found.severity == expected


@pytest.mark.parametrize(
    ("node", "rank", "expected"),
    [
        ("evil", 3, "critical"),
        ("evil", None, "critical"),
        ("good", 3, "info"),
        ("n2", None, "info"),  # rank 0 runs there and prints that the training is done
        ("n2", 3, "critical"),
    ],
)
def test_the_end_of_a_job_counts_from_a_node_that_runs_it(node: str, rank: int | None, expected: str) -> None:
    nodes = ReportingNodes([GOOD, replace(GOOD, node="n2", rank=0)])
    failed, end = line("oom.cuda", "good"), line(FINISHED, node, rank=rank, at=T0 + 60)
    assert with_outcomes([failed, end], [], nodes)[0].severity == expected
