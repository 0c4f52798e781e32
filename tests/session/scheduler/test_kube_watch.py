"""Events of Kubernetes as findings of the pods that are watched."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.kube.events import read_ends, read_events
from gpuwatch.hosts.kube.plan import kube_plan
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.session.scheduler.kube_watch import KubeWatch, watch_of
from gpuwatch.wire import Finding
from tests.hosts.kube.fake_kubectl import pod
from tests.report.fleets import plan

EVENTS = (Path(__file__).parents[2] / "hosts/kube/events.json").read_text()
ENDED = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-26T12:00:02Z"}
LIMIT_S = 240.0


class Cluster:
    """A kubectl that answers from its fields."""

    def __init__(self) -> None:
        self.events = EVENTS
        self.pods = [pod("run7-worker-0"), pod("run7-worker-1")]
        self.forbidden: tuple[str, ...] = ()

    def __call__(self, argv: Sequence[str]) -> str:
        what = argv[2]
        if what in self.forbidden:
            raise HostsError([f"{what} is forbidden"])
        return self.events if what == "events" else json.dumps({"items": self.pods})


def watching(cluster: Cluster, started: float = 0.0) -> tuple[KubeWatch, Callable[[], dict[str, Finding]]]:
    """A watch that looks often, and the newest findings by reason and pod."""
    watch = KubeWatch(
        kube_plan("pytorchjob/run7", "ml", cluster), lambda _rule: "first", started, cluster, 0.02
    )
    kept: dict[str, Finding] = {}

    def findings() -> dict[str, Finding]:
        for arrival in watch.update(time.monotonic(), 2e9):
            assert isinstance(arrival, Arrival)
            assert isinstance(arrival.what, Finding)
            kept[f"{arrival.what.fields['status']} {arrival.node}"] = arrival.what
        return kept

    watch.start()
    return watch, findings


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_failed_is_a_finding_of_its_pod_and_a_machine_of_all_its_pods() -> None:
    cluster = Cluster()
    cluster.pods[1]["status"]["containerStatuses"][0]["lastState"] = {"terminated": ENDED}
    watch, findings = watching(cluster)
    try:
        until(lambda: len(findings()) >= 4)
        found = findings()
        assert sorted(found) == [
            "Evicted run7-worker-1", "FailedScheduling run7-worker-0", "NodeNotReady run7-worker-0",
            "OOMKilled run7-worker-1",
        ]  # fmt: skip
        assert found["OOMKilled run7-worker-1"].rule == "oom.host.cgroup"
        assert found["FailedScheduling run7-worker-0"].severity == "warning"
        assert found["FailedScheduling run7-worker-0"].count == 7
        assert found["Evicted run7-worker-1"].timed
        assert found["Evicted run7-worker-1"].at == 1795694403.0
    finally:
        watch.close()


def test_an_event_is_reported_again_only_when_it_happened_again() -> None:
    cluster = Cluster()
    watch, findings = watching(cluster)
    try:
        until(lambda: len(findings()) >= 3)
        first = findings()["FailedScheduling run7-worker-0"]
        assert watch.update(0.0, 0.0) == []
        cluster.events = EVENTS.replace('"count": 7', '"count": 8')
        until(lambda: findings()["FailedScheduling run7-worker-0"].count == 8)
        assert findings()["FailedScheduling run7-worker-0"].id == first.id
    finally:
        watch.close()


def test_where_events_are_forbidden_the_ends_of_containers_still_show() -> None:
    cluster = Cluster()
    cluster.forbidden = ("events",)
    cluster.pods[0]["status"]["containerStatuses"][0]["lastState"] = {"terminated": ENDED}
    watch, findings = watching(cluster, started=2e9)
    try:
        until(lambda: bool(findings()))
        assert findings()["OOMKilled run7-worker-0"].backlog
        assert (watch.take_trouble() or "").endswith("forbidden")
        assert watch.take_trouble() is None
    finally:
        watch.close()


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", '{"items": 7}', '{"items": [7, null, {}]}', '{"items": [{"reason": "Evicted"}]}',
        '{"items": [{"reason": "Evicted", "involvedObject": {"kind": "Pod", "name": 7}}]}',
        '{"items": [{"reason": "Evicted", "involvedObject": {"kind": "Pod", "name": "a"}}]}',
        '{"items": [{"reason": ["Evicted"], "involvedObject": [], "metadata": 3, "status": []}]}',
        '{"items": [{"metadata": {"name": "a"}, "status": {"containerStatuses": [3, {"state": 7}]}}]}',
    ],
)  # fmt: skip
def test_what_is_no_list_of_events_or_pods_has_none(text: str) -> None:
    assert read_events(text) == []
    assert read_ends(text) == []


def test_other_sources_are_not_asked() -> None:
    assert watch_of(Fleet(plan("a")), lambda _rule: "first", 0.0) is None
