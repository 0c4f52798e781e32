"""Makes the plan of the pods that match a selector: each pod is a node, reached by `kubectl exec`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuwatch.hosts.external_command import RunCommand, run_external
from gpuwatch.hosts.kube.pods import NAME, Pod, read_pods
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.hosts.validation.errors import HostsError

JOB_LABELS = {
    "job": "batch.kubernetes.io/job-name",
    "jobset": "jobset.sigs.k8s.io/jobset-name",
    "mpijob": "training.kubeflow.org/job-name",
    "pytorchjob": "training.kubeflow.org/job-name",
    "raycluster": "ray.io/cluster",
    "rayjob": "ray.io/originated-from-cr-name",
}
"""Kind of job -> the label that its operator sets on its pods (from their API references)."""
MAX_FAILED = 16
_SELECTOR = re.compile(r"[\w./()!=, -]{1,500}")


def label_selector(selector: str) -> str:
    """Return the label selector of `KIND/NAME`, such as `pytorchjob/run7`; a label selector stays as it is.

    Raises:
        HostsError: The text is neither.
    """
    kind, slash, name = selector.partition("/")
    if slash and kind.lower() in JOB_LABELS and NAME.fullmatch(name):
        return f"{JOB_LABELS[kind.lower()]}={name}"
    if not _SELECTOR.fullmatch(selector) or selector.startswith("-") or "=" not in selector:
        kinds = ", ".join(f"{kind}/NAME" for kind in JOB_LABELS)
        raise HostsError([f"--kube {selector}: not a label selector such as app=train, nor one of {kinds}"])
    return selector


def kube_plan(selector: str, namespace: str | None, run: RunCommand = run_external) -> Plan:
    """Return the plan of the pods that kubectl finds in its current context.

    Pods that are over are left out, with the exceptions that `present` lists.

    Args:
        selector: A label selector or `KIND/NAME`.
        namespace: None for kubectl's current one.
        run: Runs kubectl.

    Raises:
        HostsError: The selector or namespace is invalid, kubectl fails, no pod matches, or two have the same
            name.
    """
    if namespace is not None and not NAME.fullmatch(namespace):
        raise HostsError([f"--namespace {namespace}: not the name of a namespace"])
    where = [] if namespace is None else ["--namespace", namespace]
    pods = read_pods(
        run(["kubectl", "get", "pods", *where, "--selector", label_selector(selector), "-o", "json"])
    )
    if not pods:
        among = "the current namespace" if namespace is None else f"namespace {namespace}"
        raise HostsError([f"--kube {selector}: no pod in {among} has these labels"])
    names = [pod.name for pod in pods]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise HostsError([f"--kube {selector}: kubectl reports two pods named {twice}"])
    return Plan(nodes=tuple(pod_node(pod) for pod in present(pods)), source=f"--kube {selector}")


def present(pods: Sequence[Pod]) -> Sequence[Pod]:
    """Return the pods without those that succeeded, or failed and were replaced; all of them, if none runs.

    A failed pod, whose logs can still be read, may be the reason why the others hang. At most `MAX_FAILED`.
    """
    running = [pod for pod in pods if pod.phase not in ("Succeeded", "Failed")]
    replaced = {(pod.role, pod.index) for pod in running if pod.index}
    failed = [pod for pod in pods if pod.phase == "Failed" and (pod.role, pod.index) not in replaced]
    kept = {pod.name for pod in (*running, *failed[-MAX_FAILED:])}
    return [pod for pod in pods if pod.name in kept] if running else pods


def pod_node(pod: Pod) -> NodeSpec:
    """Return the `NodeSpec` of a pod; its labels `kube_*` state where it runs and its state."""
    labels = {
        "kube_node": pod.node,
        "kube_namespace": pod.namespace,
        "kube_phase": pod.phase,
        "kube_reason": pod.reason,
        "kube_restarts": str(pod.restarts),
        "kube_gpus": pod.devices,
        "kube_mig": pod.mig,
        "kube_role": pod.role,
        "kube_index": pod.index,
    }
    return NodeSpec(
        name=pod.name,
        link="command",
        command=exec_command(pod),
        slots=pod.gpus,
        labels={name: value for name, value in labels.items() if value},
    )


def exec_command(pod: Pod) -> tuple[str, ...]:
    """Return the `kubectl exec` argv for the pod's container; the command to run is appended to it."""
    argv: Sequence[str] = ["kubectl", "exec", "-i", "--namespace", pod.namespace, pod.name]
    return (*argv, "--container", pod.container, "--")
