"""Parses the pods that `kubectl get pods -o json` reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gpuwatch.hosts.kube.answers import count, items_of, short
from gpuwatch.hosts.kube.gpu_annotations import allocated_gpus
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.whole_number import MAX_DIGITS, whole_number

NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
"""A DNS subdomain (RFC 1123): the form of names of pods, containers and namespaces."""
GPU_RESOURCES = ("nvidia.com/gpu", "nvidia.com/gpu.shared")
MIG_RESOURCES = "nvidia.com/mig-"
"""The beginning of the resources of NVIDIA's device plugin for slices of a GPU: `nvidia.com/mig-1g.10gb`."""
MAX_MIG_CHARS = 60
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""The annotation that names kubectl's default container."""
REPLICA_LABELS = (
    "training.kubeflow.org/replica-index",
    "jobset.sigs.k8s.io/job-index",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
)
ROLE_LABELS = (
    "training.kubeflow.org/replica-type",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "ray.io/node-type",
)


class Pod(Struct, frozen=True):
    """A pod of a job and the one container of it that gpuwatch enters."""

    name: str
    namespace: str
    container: str
    """The container with the GPUs, else kubectl's default, else the first."""
    gpus: int | None
    """Number of GPUs that this container requests; None: it requests none."""
    node: str
    """The machine on which the pod runs; "" while it waits."""
    phase: str
    """The pod's phase: Running, Pending, Failed, ..."""
    reason: str
    """Why the pod's container does not run: CrashLoopBackOff, OOMKilled, Unschedulable, ...; else ""."""
    restarts: int
    devices: str
    """GPUs that a scheduler assigned to the pod: UUIDs, or numbers of the machine's GPUs; "" if none."""
    mig: str
    """The pod's MIG devices: `2x 1g.10gb`; "" without any."""
    role: str
    index: str
    """The pod's index within its role, as the operator numbers the pods; "" without one."""


def read_pods(text: str) -> list[Pod]:
    """Return the pods in the JSON of `kubectl get pods`, sorted by role and index.

    Raises:
        HostsError: The text is not a list of pods.
    """
    try:
        pods = [_pod(item) for item in items_of(text)]
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise HostsError([f"kubectl: an answer that is no list of pods ({type(error).__name__})"]) from error
    return sorted(pods, key=_order)


def _pod(item: Mapping[str, Any]) -> Pod:
    about, spec, status = item["metadata"], item["spec"], item.get("status", {})
    containers = spec["containers"]
    usual = (about.get("annotations") or {}).get(DEFAULT_CONTAINER)
    named = [each for each in containers if each["name"] == usual]
    chosen = next((each for each in containers if _gpus(each) or _mig(each)), (named or containers)[0])
    labels = about.get("labels") or {}
    states = [each for each in status.get("containerStatuses") or () if each.get("name") == chosen["name"]]
    for name in (about["name"], about["namespace"], chosen["name"]):
        if not NAME.fullmatch(name):
            raise ValueError(f"not a name: {name!r}")
    return Pod(
        name=about["name"],
        namespace=about["namespace"],
        container=chosen["name"],
        gpus=_gpus(chosen) or None,
        node=short(spec.get("nodeName")),
        phase=short(status.get("phase")) or "Unknown",
        reason=short(_reason(status, states[0] if states else {})),
        restarts=count(states[0].get("restartCount")) if states else 0,
        devices=allocated_gpus(about.get("annotations") or {}),
        mig=", ".join(f"{number}x {profile}" for profile, number in _mig(chosen)),
        role=next((short(labels[name]) for name in ROLE_LABELS if name in labels), ""),
        index=next((short(labels[name]) for name in REPLICA_LABELS if name in labels), ""),
    )


def _gpus(container: Mapping[str, Any]) -> int:
    limits = _limits(container)
    return sum(whole_number(short(limits.get(name))) or 0 for name in GPU_RESOURCES)


def _mig(container: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return (profile, number) of each kind of MIG device that a container requests."""
    found = []
    for name, limit in sorted(_limits(container).items()):
        number = whole_number(short(limit))
        if name.startswith(MIG_RESOURCES) and number:
            found.append((name.removeprefix(MIG_RESOURCES)[:MAX_MIG_CHARS], number))
    return found


def _limits(container: Mapping[str, Any]) -> Mapping[str, Any]:
    limits: Mapping[str, Any] = (container.get("resources") or {}).get("limits") or {}
    return limits


def _reason(status: Mapping[str, Any], container: Mapping[str, Any]) -> str:
    """Return why the container does not run: its own state, else the pod's, else why it cannot be scheduled.

    "" if no reason is known.
    """
    state = container.get("state") or {}
    for kind in ("waiting", "terminated"):
        if kind in state:
            last = ((container.get("lastState") or {}).get("terminated") or {}).get("reason")
            now = state[kind].get("reason") or kind
            return f"{now}, after {last}" if last and last != now else str(now)
    if status.get("reason"):
        return str(status["reason"])
    unmet = [each for each in status.get("conditions") or () if each.get("status") == "False"]
    placed = [each for each in unmet if each.get("type") == "PodScheduled"]
    return str(placed[0].get("reason") or "") if placed else ""


def _order(pod: Pod) -> tuple[str, int, str, str]:
    """Return the sort key of a pod: its role, then its index; pods without a numeric index come last."""
    number = whole_number(pod.index)
    return pod.role, 10**MAX_DIGITS if number is None else number, pod.index, pod.name
