"""A real kubectl against a server that speaks the API: plan, events, logs without exec, cordon and delete."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gpuwatch.diagnose.actions.action import Action, ActionTarget
from gpuwatch.diagnose.actions.offers import possible_actions
from gpuwatch.hosts.kube.plan import kube_plan
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.session import Session
from tests.hosts.kube.api_server import ApiServer, api_server
from tests.hosts.kube.fake_kubectl import EVENTS, RECORDED, pod
from tests.parts import need
from tests.session import polling

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
WAIT_S = 200.0
until = partial(polling.until, seconds=WAIT_S)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    need("kubectl")
    with api_server() as known:
        monkeypatch.setenv("KUBECONFIG", str(known.config(tmp_path)))
        monkeypatch.setenv("HOME", str(tmp_path))
        known.pods = [pod("run7-worker-0", gpus=8), pod("run7-worker-1", gpus=8)]
        yield known


def lately(seconds_ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - seconds_ago))


def test_logs_events_and_actions_of_pods_that_may_not_be_entered(cluster: ApiServer) -> None:
    cluster.events = json.loads(EVENTS.read_text().replace(RECORDED, lately(60)[:-1]))["items"]
    error = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    cluster.logs["run7-worker-1"] = [f"{lately(100)}.000000001Z step 1/100 loss 2.5"]
    plan = kube_plan("pytorchjob/run7", None)
    assert [(spec.name, spec.slots) for spec in plan.nodes] == [("run7-worker-0", 8), ("run7-worker-1", 8)]
    with Session(plan) as session:
        node = session.fleet.nodes["run7-worker-1"]
        until(session, lambda: bool(node.logs))
        assert "pods/exec" in node.link.reason
        cluster.logs["run7-worker-1"].append(f"{lately(1)}.000000001Z {error}")
        until(session, lambda: any(each.rank == 1 for each in session.book.alerts.values()))
        until(session, lambda: any(a.code == "k8s.pod_error" for a in session.book.alerts.values()))
        target = ActionTarget(node.name)
        found: dict[str, Action] = {each.kind: each for each in possible_actions(target, session.fleet)}
        for kind, changed in (
            ("cordon", "PATCH /api/v1/nodes/gpu-1"),
            ("delete_pod", "DELETE /api/v1/namespaces/ml/pods/run7-worker-1"),
        ):
            run = session.act(found[kind], target)
            until(session, lambda run=run: run.outcome is not None)  # type: ignore[misc]
            assert run.outcome is not None
            assert run.outcome.exit_status == 0, run.outcome
            assert changed in cluster.changed


@pytest.mark.parametrize("mood", ["500", "garbage"])
def test_a_server_that_fails_is_named(cluster: ApiServer, mood: str) -> None:
    cluster.mood = mood
    with pytest.raises(HostsError, match="kubectl: "):
        kube_plan("pytorchjob/run7", None)


def test_a_slow_server_is_waited_for(cluster: ApiServer) -> None:
    cluster.mood = "slow"
    assert len(kube_plan("pytorchjob/run7", "ml").nodes) == 2


def test_a_server_that_is_down_is_named(cluster: ApiServer, tmp_path: Path) -> None:
    cluster.url = "http://127.0.0.1:9"
    cluster.config(tmp_path)
    with pytest.raises(HostsError, match="kubectl: "):
        kube_plan("pytorchjob/run7", None)
