"""One rank slower than all others of its job."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch.diagnose.straggler.straggler_watch import StragglerWatch
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.wire import Process, Ranks
from tests.diagnose.incidents.alert_cluster import Cluster
from tests.diagnose.story import EPOCH, FINE
from tests.fleet.logs.reporting import report
from tests.sentences import Sentences

WORKING = structs.replace(FINE, utilization_pct=99.0, sm_clock_mhz=1755, throttle=[])
SLOW = structs.replace(WORKING, sm_clock_mhz=1228, throttle_pct={"sw_thermal": 88.0})


def test_a_straggler_is_reported_once_with_cause_and_cost_and_ends(sentences: Sentences) -> None:
    """Document 001, line 164."""
    cluster = Cluster(nodes=8)
    all_fine = {f"GPU-{node}-{gpu}": WORKING for node in range(8) for gpu in range(8)}
    cluster.step(5, odd=all_fine)
    one_slow = {**all_fine, "GPU-3-2": SLOW}
    cluster.step(6, odd=one_slow)
    assert cluster.states("slower_than_peers") == []  # it has not lasted yet
    cluster.step(20, odd=one_slow)
    (alert,) = (a for a in cluster.book.alerts.values() if a.code == "slower_than_peers")
    assert (alert.node, alert.gpu, alert.rank, alert.job) == ("gpu-004", 2, 26, "4711")
    sentences(alert.text)
    sentences(alert.proof[0].text)
    cluster.step(30, odd=all_fine)
    assert cluster.states("slower_than_peers") == ["resolved"]


def test_where_a_whole_node_is_slower_its_neighbours_do_not_hide_it() -> None:
    cluster = Cluster(nodes=4)
    odd = {f"GPU-{node}-{gpu}": WORKING for node in range(4) for gpu in range(8)}
    odd |= {f"GPU-2-{gpu}": SLOW for gpu in range(8)}
    cluster.step(30, odd=odd)
    reported = [alert for alert in cluster.book.alerts.values() if alert.code == "slower_than_peers"]
    assert {alert.node for alert in reported} == {"gpu-003"}
    assert len(reported) == 8


def test_a_gpu_that_does_less_may_clock_lower() -> None:
    cluster = Cluster(nodes=4)
    odd = {f"GPU-{node}-{gpu}": WORKING for node in range(4) for gpu in range(8)}
    odd["GPU-1-1"] = structs.replace(SLOW, utilization_pct=55.0)
    cluster.step(40, odd=odd)
    assert cluster.states("slower_than_peers") == []


class CpuJob:
    """Ranks without GPUs on one node, with the CPU time that a test gives them."""

    def __init__(self, *, steps: bool = True) -> None:
        self.fleet = Fleet(Plan((NodeSpec("n1"),)))
        self.watch = StragglerWatch(Thresholds(hold_s=30, clear_s=60))
        self.now, self.steps = 1000.0, steps

    def look(self, *cpu_pct: float, seconds: float = 60.0, state: str = "S") -> list[str]:
        """Read and look every 5 s; what fires then."""
        for _ in range(int(seconds / 5)):
            self.now += 5
            reported = [
                Process(pid=100 + rank, name="python", rank=rank, job="4711", cpu_pct=pct, state=state)
                for rank, pct in enumerate(cpu_pct)
            ]
            self.fleet.apply(Arrival("n1", self.now, Ranks(t=self.now, seq=1, processes=reported)))
            if self.steps:
                report(self.fleet.progress, {"step": self.now, "loss": 0.5}, self.now, rank=0, job="4711")
            self.watch.go(self.fleet, self.now, EPOCH + self.now)
        return [alert.text for alert in self.watch.alerts.values() if alert.state == "firing"]


def test_a_cpu_rank_that_computes_while_the_others_wait_is_reported_when_it_lasted(
    sentences: Sentences,
) -> None:
    job = CpuJob()
    assert job.look(24, 26, 99, 25, seconds=25) == []
    assert job.look(24, 26, 100, 25, seconds=20) != []
    (alert,) = job.watch.alerts.values()
    assert (alert.rank, alert.node, alert.job, alert.rank_from) == (2, "n1", "4711", "process")
    sentences(alert.text)
    sentences(alert.proof[0].text)
    assert job.look(60, 62, 61, 60, seconds=90) == []


@pytest.mark.parametrize(
    ("cpu_pct", "why"),
    [
        ((99, 97, 100, 98), "all compute"),
        ((5, 6, 42, 4), "nobody computes: they all wait for something else"),
        ((100, 99, 4, 5), "two halves with different work"),
        ((20, 22, 40, 35), "not by much"),
        ((3, 100), "of two, nobody says who is the odd one"),
    ],
)
def test_cpu_ranks_that_are_no_stragglers(cpu_pct: tuple[float, ...], why: str) -> None:
    assert CpuJob().look(*cpu_pct) == [], why


def test_a_rank_that_saves_alone_now_and_then_is_none() -> None:
    job = CpuJob()
    for _ in range(10):
        assert job.look(100, 5, 5, 5, seconds=20) == []
        assert job.look(50, 50, 50, 50, seconds=20) == []


@pytest.mark.parametrize("left", [(), (24, 26)], ids=["none is left", "two are left"])
def test_no_rank_slows_a_job_once_it_has_ended(left: tuple[float, ...]) -> None:
    job = CpuJob()
    assert job.look(24, 26, 99, 25) != []
    assert job.look(*left, seconds=5) == []


def test_on_a_full_node_it_gets_less_than_it_wants(sentences: Sentences) -> None:
    job = CpuJob()
    assert job.look(5, 6, 24, 5) == []
    (text,) = job.look(5, 6, 24, 5, state="R")
    sentences(text)


def test_who_computes_alone_while_the_job_does_not_step_is_none() -> None:
    assert CpuJob(steps=False).look(100, 3, 3, 3) == []
