"""Pods as kubectl prints them, and the plans that come of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gpuwatch.hosts.kube.plan import kube_plan, label_selector
from gpuwatch.hosts.kube.pods import read_pods
from gpuwatch.hosts.validation.errors import HostsError
from tests.hosts.kube.fake_kubectl import pod


def listed(*pods: dict[str, Any]) -> str:
    return json.dumps({"items": list(pods)})


def test_pods_come_in_the_order_of_their_indices_with_their_gpus() -> None:
    text = listed(*(pod(f"run7-worker-{index}", gpus=8) for index in (10, 2, 0)))
    pods = read_pods(text)
    assert [one.name for one in pods] == ["run7-worker-0", "run7-worker-2", "run7-worker-10"]
    assert {(one.container, one.gpus, one.role) for one in pods} == {("trainer", 8, "worker")}


def test_a_pod_is_reached_by_exec_in_the_container_with_the_gpus() -> None:
    asked: list[Sequence[str]] = []

    def run(argv: Sequence[str]) -> str:
        asked.append(argv)
        return listed(pod("run7-worker-0", gpus=8), pod("run7-worker-1", phase="Succeeded"))

    plan = kube_plan("pytorchjob/run7", "ml", run)
    assert "training.kubeflow.org/job-name=run7" in asked[0]
    (node,) = plan.nodes
    assert (node.name, node.link, node.slots) == ("run7-worker-0", "command", 8)
    assert node.command[:2] == ("kubectl", "exec")
    assert node.command[-3:] == ("--container", "trainer", "--")
    assert node.labels["kube_node"] == "gpu-0"


def test_a_failed_pod_stays_unless_another_one_took_its_place() -> None:
    ended = [pod("run7-worker-1", phase="Failed"), pod("run7-worker-2", phase="Succeeded")]
    pods = [pod("run7-worker-0"), *ended]
    plan = kube_plan("pytorchjob/run7", "ml", lambda _argv: listed(*pods))
    assert [node.name for node in plan.nodes] == ["run7-worker-0", "run7-worker-1"]
    again = pod("run7-worker-1b")
    again["metadata"]["labels"]["training.kubeflow.org/replica-index"] = "1"
    plan = kube_plan("pytorchjob/run7", "ml", lambda _argv: listed(*pods, again))
    assert [node.name for node in plan.nodes] == ["run7-worker-0", "run7-worker-1b"]


HAMI = ";GPU-04dc,NVIDIA,8000,10:GPU-05ab,NVIDIA,8000,10:;"
ALLOCATED = (
    ("hami.io/vgpu-devices-allocated", HAMI, "GPU-04dc,GPU-05ab"),
    ("volcano.sh/gpu-index", "0,2", "0,2"),
    ("scheduling.koordinator.sh/device-allocated", '{"gpu":[{"minor":3}],"rdma":[{"minor":0}]}', "3"),
    ("scheduling.koordinator.sh/device-allocated", '{"gpu":"x"}', None),
    ("volcano.sh/gpu-index", "all of them", None),
)


@pytest.mark.parametrize(("name", "value", "gpus"), ALLOCATED)
def test_the_gpus_that_a_scheduler_noted(name: str, value: str, gpus: str | None) -> None:
    made = pod("run7-worker-0")
    made["metadata"]["annotations"] = {name: value}
    (node,) = kube_plan("pytorchjob/run7", "ml", lambda _argv: listed(made)).nodes
    assert node.labels.get("kube_gpus") == gpus


def test_slices_of_a_gpu_are_no_number_of_gpus() -> None:
    made = pod("run7-worker-0")
    made["spec"]["containers"][1]["resources"] = {"limits": {"nvidia.com/mig-1g.10gb": "2", "cpu": "4"}}
    (node,) = kube_plan("pytorchjob/run7", "ml", lambda _argv: listed(made)).nodes
    assert (node.slots, node.labels["kube_mig"]) == (None, "2x 1g.10gb")
    assert "trainer" in node.command


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"waiting": {"reason": "CrashLoopBackOff"}}, "CrashLoopBackOff"),
        ({"terminated": {"reason": "OOMKilled", "exitCode": 137}}, "OOMKilled"),
    ],
)
def test_why_a_pod_does_not_run(status: dict[str, Any], reason: str) -> None:
    (found,) = read_pods(listed(pod("run7-worker-0", gpus=8, **status)))
    assert (found.reason, found.restarts) == (reason, 2)


def test_a_pod_that_cannot_be_placed_has_the_schedulers_reason() -> None:
    waiting = pod("run7-worker-0", phase="Pending")
    waiting["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    assert read_pods(listed(waiting))[0].reason == "Unschedulable"


@pytest.mark.parametrize("selector", ["app=train", "app in (a, b),tier!=x=y", "job/run7", "JobSet/run7"])
def test_selectors(selector: str) -> None:
    assert "=" in label_selector(selector) or selector.startswith("app")


@pytest.mark.parametrize("selector", ["run7", "--all=1", "deployment/x", "pytorchjob/$(id)", "a=b\n", ""])
def test_what_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(HostsError):
        label_selector(selector)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"items": [1]}', '{"items": [{"metadata": {}}]}', listed(pod("--kubeconfig=x"))],
)
def test_an_answer_that_is_no_list_of_pods_is_refused(text: str) -> None:
    with pytest.raises(HostsError):
        read_pods(text)


def test_no_pod_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostsError, match="no pod"):
        kube_plan("app=x", None, lambda _: listed())
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(HostsError, match="kubectl"):
        kube_plan("app=x", None)
