"""The words of one node clear no fault of another, unless it runs the rank that goes on."""

from __future__ import annotations

import pytest
from msgspec import structs
from msgspec.structs import replace

from gpuwatch.diagnose.error_outcome.outcomes import with_outcomes
from gpuwatch.diagnose.error_outcome.reporting_nodes import ReportingNodes
from gpuwatch.diagnose.error_outcome.step_track import Mark, StepTrack
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.fleet.jobs.places import Places, RankPlace
from gpuwatch.wire import RankSource, Severity
from tests.diagnose.finding import T0

FINISHED = "job.finished"

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
        ([replace(GOOD, node="n2")], "n2", "info"),  # it logs to a file that the other node reads
        ([], "n2", "info"),  # the job ended before anybody looked
    ],
)
def test_later_steps_count_from_the_node_that_runs_the_rank(
    places: list[RankPlace], node: str, expected: str
) -> None:
    (found,) = with_outcomes([line("oom.cuda", "good")], [steps(node)], ReportingNodes(Places(tuple(places))))
    assert found.severity == expected


@pytest.mark.parametrize(
    ("node", "rank", "expected"),
    [
        ("evil", 3, "critical"),
        ("evil", None, "critical"),
        ("good", 3, "info"),
        ("n2", None, "critical"),  # rank 0 prints there that the training is done, while this one runs on
        ("n2", 3, "critical"),
    ],
)
def test_the_end_of_a_job_counts_from_a_node_that_runs_it(node: str, rank: int | None, expected: str) -> None:
    nodes = ReportingNodes(Places((GOOD, replace(GOOD, node="n2", rank=0))))
    failed, end = line("oom.cuda", "good"), line(FINISHED, node, rank=rank, at=T0 + 60)
    assert with_outcomes([failed, end], [], nodes)[0].severity == expected


def test_the_end_of_a_job_by_another_node_leaves_a_warning_once_its_ranks_are_gone() -> None:
    nodes = ReportingNodes(Places((replace(GOOD, until=T0 + 70), replace(GOOD, node="n2", rank=0))))
    failed, end = line("oom.cuda", "good"), line(FINISHED, "n2", rank=None, at=T0 + 60)
    assert with_outcomes([failed, end], [], nodes)[0].severity == "warning"


@pytest.mark.parametrize(
    ("rank_from", "expected"), [("process", "warning"), ("path", "warning"), ("line", "info")]
)
def test_a_rank_that_is_listed_elsewhere_afterwards_leaves_a_warning_in_its_own_log(
    rank_from: RankSource, expected: str
) -> None:
    """A launcher's log, which holds the lines of many ranks, is no rank's own."""
    failed = structs.replace(line("oom.cuda", "good"), rank_from=rank_from)
    nodes = ReportingNodes(Places((replace(GOOD, node="n2"),)))
    assert with_outcomes([failed], [steps("n2")], nodes)[0].severity == expected


@pytest.mark.parametrize("words", ["steps", "end"])
@pytest.mark.parametrize("listed", [(), ("good", "evil"), ("evil",)])
def test_a_node_that_listed_a_rank_beside_its_own_node_clears_nothing_of_it(
    listed: tuple[str, ...], words: str
) -> None:
    ranks = tuple(replace(GOOD, node=name) for name in listed)
    nodes = ReportingNodes(Places(ranks, contested=frozenset({("4711", 3, "good"), ("4711", 3, "evil")})))
    failed, end = line("oom.cuda", "good"), line(FINISHED, "evil", at=T0 + 60)
    known, tracks = ([failed], [steps("evil")]) if words == "steps" else ([failed, end], [])
    assert with_outcomes(known, tracks, nodes)[0].severity == "critical"


def test_a_second_node_with_the_same_line_does_not_clear_it_alone() -> None:
    """Lines of two nodes about one thing are one alert."""
    failed = line("oom.cuda", "good")
    both = structs.replace(failed, proof=(*failed.proof, structs.replace(failed.proof[0], node="evil")))
    nodes = ReportingNodes(Places((GOOD,), contested=frozenset({("4711", 3, "good"), ("4711", 3, "evil")})))
    assert with_outcomes([both], [steps("evil")], nodes)[0].severity == "critical"
    assert with_outcomes([both], [steps("evil"), steps("good")], nodes)[0].severity == "info"


def test_an_end_of_no_known_job_clears_nothing_on_another_node() -> None:
    failed, end = line("oom.cuda", "good"), line(FINISHED, "evil", at=T0 + 60)
    found = [structs.replace(each, job=None, rank=None) for each in (failed, end)]
    assert with_outcomes(found, [], ReportingNodes(Places()))[0].severity == "critical"
