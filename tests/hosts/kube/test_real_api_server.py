"""`--kube` over a real API server and a real kubectl: what RBAC allows, logs, events, cordon and delete."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gpuwatch.diagnose.actions.action import ActionTarget
from gpuwatch.diagnose.actions.offers import possible_actions
from gpuwatch.hosts.kube.plan import kube_plan
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.session import Session
from tests.hosts.kube.fake_kubectl import pod
from tests.hosts.kube.real_api_server import PODS, RealApiServer, real_api_server
from tests.parts import need
from tests.session import polling

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
until = partial(polling.until, seconds=300.0)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealApiServer]:
    need("kubectl")
    with real_api_server(tmp_path) as known:
        monkeypatch.setenv("KUBECONFIG", str(known.config("jane")))
        monkeypatch.setenv("HOME", str(tmp_path))
        yield known


def alerts_of(session: Session) -> set[tuple[str, str | None, int | None]]:
    return {(each.code, each.node, each.rank) for each in session.book.alerts.values()}


def test_a_job_is_watched_with_what_its_user_may_and_ended_by_an_admin(
    cluster: RealApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(2):
        cluster.add_pod(pod(f"run7-worker-{index}", gpus=8))
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    error = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    cluster.logs["run7-worker-1"] = [f"{at}.000000001Z step 1/100 loss 2.5", f"{at}.000000002Z {error}"]
    cluster.add_event("Pod", "run7-worker-0", "Evicted", "The node was low on resource: memory.")
    with pytest.raises(HostsError, match="no pod"):
        kube_plan("pytorchjob/run8", None)
    plan = kube_plan("pytorchjob/run7", None)
    assert [(spec.name, spec.slots) for spec in plan.nodes] == [("run7-worker-0", 8), ("run7-worker-1", 8)]
    with Session(plan) as session:
        node = session.fleet.nodes["run7-worker-1"]
        until(session, lambda: ("oom.cuda", node.name, 1) in alerts_of(session))
        assert "pods/exec" in node.link.reason
        until(session, lambda: ("k8s.pod_error", "run7-worker-0", None) in alerts_of(session))
        monkeypatch.setenv("KUBECONFIG", str(cluster.config("admin")))
        target = ActionTarget(node.name)
        for each in possible_actions(target, session.fleet):
            run = session.act(each, target)
            until(session, lambda run=run: run.outcome is not None)  # type: ignore[misc]
            assert run.outcome is not None
            assert run.outcome.exit_status == 0, run.outcome
    assert cluster.ask("GET", "/api/v1/nodes/gpu-1")["spec"]["unschedulable"]
    assert "deletionTimestamp" in cluster.ask("GET", f"{PODS}/run7-worker-1")["metadata"]


def test_a_machine_that_is_not_ready_is_a_finding_of_its_pods_where_its_events_may_be_read(
    cluster: RealApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.config("admin")))
    cluster.add_pod(pod("run7-worker-0", gpus=8))
    cluster.add_event("Node", "gpu-0", "NodeNotReady", "Node gpu-0 status is now: NodeNotReady")
    with Session(kube_plan("training.kubeflow.org/job-name=run7", None)) as session:
        until(session, lambda: ("k8s.pod_error", "run7-worker-0", None) in alerts_of(session))
