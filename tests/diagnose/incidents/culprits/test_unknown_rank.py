"""A rank that ended and whose number is not known is not taken for its node."""

from __future__ import annotations

import pytest

from gpuwatch.rules.load import load_packs
from tests.diagnose.incidents.alert_cluster import Cluster


def test_a_killed_rank_is_not_reported_as_a_killed_node() -> None:
    cluster = Cluster(packs=load_packs())
    cluster.find("rank.killed", None, file="/logs/launch.log")
    cluster.step(2)
    (incident,) = cluster.book.incidents
    assert (incident.rank, incident.node) == (None, "gpu-001")
    assert not incident.headline.startswith("gpu-001")
    assert "gpu-001" in incident.headline


@pytest.mark.parametrize(("severity", "rank"), [("warning", None), ("critical", 3)])
def test_a_rank_that_may_go_on_is_not_the_one_that_a_cause_without_rank_ended(
    severity: str, rank: int | None
) -> None:
    cluster = Cluster(packs=load_packs())
    cluster.find("storage.full", None, file="/logs/other.log", severity="critical")
    cluster.find("rank.killed", 3, severity=severity)
    cluster.step(2)
    assert [incident.rank for incident in cluster.book.incidents] == [rank]
