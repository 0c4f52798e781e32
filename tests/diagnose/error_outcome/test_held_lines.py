"""An error line of a rank that steps every second waits for the rank's next steps, or for its end."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from tests.diagnose.incidents.alert_cluster import Cluster

FILE = "/logs/train.log"


def stepping(cluster: Cluster, seconds: int, first: int, rank: int = 3) -> None:
    """Rank 3 logs a step every second into a file that other ranks write, too."""
    for step in range(first, first + seconds):
        frame = wire.Progress(
            t=cluster.t, seq=6, at=cluster.t, file=FILE, offset=step * 40, dialect="progress.common",
            fields={"step": step}, rank=rank, job="4711",
        )  # fmt: skip
        cluster.report("gpu-001", frame)
        cluster.step(1)


def trained() -> Cluster:
    cluster = Cluster()
    node = cluster.fleet.nodes["gpu-001"]
    started = [structs.replace(each, start=cluster.t - 3600) for each in node.processes]
    cluster.report("gpu-001", wire.Ranks(t=cluster.t, seq=4, processes=started))
    stepping(cluster, 6, 1)
    return cluster


@pytest.mark.parametrize(("rule", "rank"), [("storage.full", 3), ("python.exception", None)])
def test_an_error_that_its_rank_outlives_is_never_an_incident(rule: str, rank: int | None) -> None:
    cluster = trained()
    cluster.find(rule, rank, rank_from=None if rank is None else "line", job="4711", file=FILE, offset=250)
    for step in range(7, 13):
        stepping(cluster, 1, step)
        assert cluster.book.incidents == []


def test_an_observed_end_makes_the_line_an_error_at_once() -> None:
    cluster = trained()
    cluster.find("storage.full", 3, rank_from="line", job="4711", file=FILE, offset=250)
    cluster.step(1)
    assert cluster.book.incidents == []
    cluster.find("rank.exit_error", 3, rank_from="field", job="4711", file="/logs/launcher.log")
    cluster.step(2)
    assert [(each.code, each.rank) for each in cluster.book.incidents] == [("storage.full", 3)]


def test_a_rank_that_stops_stepping_after_its_error_has_failed() -> None:
    cluster = trained()
    cluster.find("storage.full", 3, rank_from="line", job="4711", file=FILE, offset=250)
    cluster.step(10)
    assert [(each.code, each.rank) for each in cluster.book.incidents] == [("storage.full", 3)]
