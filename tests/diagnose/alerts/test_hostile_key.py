"""A finding whose key is no index of its lines, from a broken or hostile agent, is judged all the same."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.model.failure_classes import EXITS
from gpuwatch.rules.load import load_packs
from tests.diagnose.incidents.alert_cluster import Cluster


@pytest.mark.parametrize("key", [1, 2**63 - 1])
def test_a_finding_without_its_key_line_is_an_alert_of_its_rank(key: int) -> None:
    for code in ("cuda.illegal_access", "ray.worker_died", "slurm.node_failure", min(EXITS)):
        cluster = Cluster(packs=load_packs())
        cluster.find(code, 3, lines=["a line"], key=key)
        cluster.step(2)
        assert code in {alert.code for alert in cluster.book.alerts.values()}
