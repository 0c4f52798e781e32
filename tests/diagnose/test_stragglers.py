"""One rank slower than all others of its job."""

from __future__ import annotations

from msgspec import structs

from tests.diagnose.story import FINE
from tests.diagnose.test_book import Cluster

WORKING = structs.replace(FINE, utilization_pct=99.0, sm_clock_mhz=1755, throttle=[])
SLOW = structs.replace(WORKING, sm_clock_mhz=1228, throttle_pct={"sw_thermal": 88.0})


def test_a_straggler_is_told_once_with_cause_and_cost_and_ends() -> None:
    cluster = Cluster(nodes=8)
    all_fine = {f"GPU-{node}-{gpu}": WORKING for node in range(8) for gpu in range(8)}
    cluster.step(5, odd=all_fine)
    one_slow = {**all_fine, "GPU-3-2": SLOW}
    cluster.step(6, odd=one_slow)
    assert cluster.states("slower_than_peers") == []  # it has not lasted yet
    cluster.step(20, odd=one_slow)
    (alert,) = (a for a in cluster.book.alerts.values() if a.code == "slower_than_peers")
    assert (alert.node, alert.gpu, alert.rank, alert.job) == ("gpu-004", 2, 26, "4711")
    assert "0.70x the clock of the job's 63 other ranks (1228 of 1755 MHz, 60 C)" in alert.text
    assert "held down by heat (88 % of the time)" in alert.text
    assert "costs the job about 30 %" in alert.text
    cluster.step(30, odd=all_fine)
    assert cluster.states("slower_than_peers") == ["resolved"]


def test_where_a_whole_node_is_slower_its_neighbours_do_not_hide_it() -> None:
    cluster = Cluster(nodes=4)
    odd = {f"GPU-{node}-{gpu}": WORKING for node in range(4) for gpu in range(8)}
    odd |= {f"GPU-2-{gpu}": SLOW for gpu in range(8)}
    cluster.step(30, odd=odd)
    told = [alert for alert in cluster.book.alerts.values() if alert.code == "slower_than_peers"]
    assert {alert.node for alert in told} == {"gpu-003"}
    assert len(told) == 8


def test_a_gpu_that_does_less_may_clock_lower() -> None:
    cluster = Cluster(nodes=4)
    odd = {f"GPU-{node}-{gpu}": WORKING for node in range(4) for gpu in range(8)}
    odd["GPU-1-1"] = structs.replace(SLOW, utilization_pct=55.0)
    cluster.step(40, odd=odd)
    assert cluster.states("slower_than_peers") == []
