"""An exception that a program logs while its process lives is no error until its outcome is known."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.error_outcome.by_lines.answered_lines import place_of
from gpuwatch.runs.files.excerpts.around import Around
from tests.diagnose.incidents.alert_cluster import Cluster

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/app/read.py", line 9, in load',
    "ValueError: bad record",
]
RECORD = "2026-05-01 10:00:00,000 ERROR [rank 3] bad record, taking the next one"
STEP = "2026-05-01 10:00:00,000 INFO [rank 3] step 7 | loss 2.5"


def failed(above: str | None) -> Cluster:
    """Rank 3 has an exception in its log; `above`: the line above the traceback, as its node answers it."""
    cluster = Cluster()
    cluster.find("python.exception", 3, lines=TRACEBACK, key=2)
    cluster.step(1)
    if above is not None:
        answer(cluster, above)
    return cluster


def answer(cluster: Cluster, above: str) -> None:
    (alert,) = cluster.book.alerts.values()
    place = place_of(alert)
    assert place is not None
    cluster.book.keep_lines(place, Around([STEP, above, *TRACEBACK[:2]], [], [], 0))
    cluster.step(2)


def severities(cluster: Cluster) -> list[str]:
    return [alert.severity for alert in cluster.book.alerts.values() if alert.code == "python.exception"]


def test_a_logged_exception_of_a_living_rank_is_an_error_only_after_a_minute_without_a_step() -> None:
    cluster = failed(RECORD)
    assert (severities(cluster), cluster.book.incidents) == (["warning"], [])
    cluster.step(40)
    assert severities(cluster) == ["warning"]
    cluster.step(30)
    assert severities(cluster) == ["error"]
    assert [incident.rank for incident in cluster.book.incidents] == [3]


def test_a_logged_exception_is_an_error_as_soon_as_its_process_has_ended() -> None:
    cluster = failed(RECORD)
    node = cluster.fleet.nodes["gpu-001"]
    left = [each for each in node.processes if each.rank != 3]
    cluster.report("gpu-001", wire.Ranks(t=cluster.t, seq=6, processes=left))
    cluster.step(4)
    assert severities(cluster) == ["error"]


def test_the_end_of_a_rank_of_its_job_makes_a_logged_exception_an_error() -> None:
    cluster = failed(RECORD)
    cluster.find("rank.exit_error", 3)
    cluster.step(3)
    assert severities(cluster) == ["error"]


@pytest.mark.parametrize("above", [STEP, "2026-05-01 10:00:00,000 CRITICAL [rank 3] giving up"])
def test_a_traceback_that_nobody_logged_as_an_error_is_one_at_once(above: str) -> None:
    assert severities(failed(above)) == ["error"]


def test_an_exception_is_an_error_where_the_node_does_not_answer() -> None:
    cluster = failed(None)
    assert severities(cluster) == ["warning"]
    cluster.step(6)
    assert severities(cluster) == ["error"]


@pytest.mark.parametrize("dies", [False, True])
def test_a_line_about_its_own_end_is_no_error_of_a_rank_that_runs_on(*, dies: bool) -> None:
    """Rank 3 prints what it generates: no process logs that it was killed."""
    cluster = Cluster()
    node = cluster.fleet.nodes["gpu-001"]
    started = [structs.replace(each, start=cluster.t - 3600) for each in node.processes]
    cluster.report("gpu-001", wire.Ranks(t=cluster.t, seq=4, processes=started))
    cluster.step(2)
    cluster.find("rank.killed", 3, rank_from="process", lines=["[sample] the process was killed by signal 9"])
    cluster.step(2)
    assert cluster.book.incidents == []
    left = [each for each in started if not dies or each.rank != 3]
    for _ in range(20):
        cluster.report("gpu-001", wire.Ranks(t=cluster.t, seq=6, processes=left))
        cluster.step(2)
    assert [incident.rank for incident in cluster.book.incidents] == ([3] if dies else [])
