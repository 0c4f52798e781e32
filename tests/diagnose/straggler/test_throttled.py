"""A throttled GPU in a job whose steps take longer is named within seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.straggler.straggler_watch import StragglerWatch
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.hosts.plan import Thresholds
from tests.diagnose.incidents.alert_cluster import Cluster
from tests.diagnose.story import FINE
from tests.fleet.logs.reporting import frame
from tests.link.demo.story import frames_until
from tests.sentences import Sentences

FALL_AT = 45
WORKING = structs.replace(FINE, utilization_pct=99.0, sm_clock_mhz=1845, throttle=[], throttle_pct={})
HOT = structs.replace(WORKING, sm_clock_mhz=1200, throttle=["sw_thermal"], throttle_pct={"sw_thermal": 80.0})


def alerts_of_the_demo() -> Iterator[tuple[int, Alert]]:
    fleet, watch = Fleet(demo_plan()), StragglerWatch(Thresholds())
    story = list(frames_until(FALL_AT - 1, ends_at=FALL_AT - 1))
    for second in range(1, FALL_AT):
        while story and story[0].at <= second:
            fleet.apply(story.pop(0))
        watch.go(fleet, second, 1_700_000_000.0 + second)
        for alert in watch.alerts.values():
            yield second, alert


def test_the_demo_names_the_hot_rank_and_its_cost_before_the_fault_comes(sentences: Sentences) -> None:
    seen = list(alerts_of_the_demo())
    assert {(alert.code, alert.node, alert.gpu, alert.rank, alert.job) for _, alert in seen} == {
        ("slower_than_peers", "gpu-006", 2, 42, "418207")
    }
    assert seen[0][0] <= FALL_AT - 4
    for line in (seen[0][1].text, seen[-1][1].text, *(proof.text for proof in seen[-1][1].proof)):
        sentences(line)


class Job:
    """A cluster of 16 ranks whose rank 0 logs a step every second of its own clock."""

    def __init__(self) -> None:
        self.cluster, self.watch, self.step = Cluster(), StragglerWatch(Thresholds()), 0
        self.odd = {f"GPU-{node}-{gpu}": WORKING for node in range(2) for gpu in range(8)}

    def run(self, steps: int, took_s: float) -> set[tuple[int | None, int | None]]:
        """Take steps; return the places of the alerts that fire then."""
        for _ in range(steps):
            self.cluster.step(took_s, odd=self.odd)
            self.step += 1
            values = {"step": self.step, "step_time_s": took_s}
            logged = frame(values, self.cluster.t, file="/logs/rank_0.log", rank=0)
            self.cluster.report("gpu-001", logged)
            self.watch.go(self.cluster.fleet, self.cluster.now, self.cluster.t)
        return {(alert.rank, alert.gpu) for alert in self.watch.alerts.values()}


@pytest.mark.parametrize(
    ("hot", "took_s", "named"),
    [
        ({"GPU-1-3"}, 3, {(11, 3)}),
        ({"GPU-1-3"}, 2, set()),
        (set(), 3, set()),
        ({"GPU-1-3", "GPU-0-1", "GPU-0-2"}, 3, set()),
    ],
    ids=["both", "steps as before", "no throttling", "more than one in eight"],
)
def test_only_both_facts_together_name_a_rank_at_once(
    hot: set[str], took_s: int, named: set[tuple[int, int]]
) -> None:
    job = Job()
    assert job.run(25, 2) == set()
    job.odd |= dict.fromkeys(hot, HOT)
    assert job.run(24 // took_s, took_s) == named


def test_a_single_long_step_is_a_pause() -> None:
    job = Job()
    job.run(25, 2)
    job.odd["GPU-1-3"] = HOT
    assert job.run(1, 9) == set()
