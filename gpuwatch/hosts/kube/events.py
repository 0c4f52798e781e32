"""Failures of pods and machines that Kubernetes reports: its events, and containers killed for memory.

Example, an item of `kubectl get events -o json`: `{"type": "Warning", "reason": "Evicted", "involvedObject":
{"kind": "Pod", "name": "run7-worker-1"}, "message": "The node was low on resource: memory.", ...}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from gpuwatch.hosts.kube.answers import NoListError, items_of

RULES: Final = {
    "BackOff": ("k8s.pod_error", "error"),
    "Evicted": ("k8s.pod_error", "error"),
    "FailedCreatePodSandBox": ("k8s.pod_error", "warning"),
    "FailedMount": ("k8s.pod_error", "warning"),
    "FailedScheduling": ("k8s.pod_error", "warning"),
    "NodeNotReady": ("k8s.pod_error", "error"),
    "OOMKilled": ("oom.host.cgroup", "error"),
    "OOMKilling": ("oom.host.cgroup", "error"),
    "Preempted": ("k8s.preempted", "error"),
    "SystemOOM": ("k8s.pod_error", "error"),
}
"""Reason -> (rule that explains it, severity).

The reasons of the kubelet, the scheduler and the node controller (kubernetes/pkg/kubelet/events/event.go).
"""
MAX_EVENTS = 2000
MAX_MESSAGE_CHARS = 1000


class KubeEvent(Struct, frozen=True):
    """One failure of a pod or of a machine."""

    uid: str
    """The event's id, which stays equal if it is reported again with a higher count."""
    reason: str
    """A key of `RULES`."""
    kind: str
    """Pod or Node."""
    name: str
    """The name of the pod or the machine."""
    at: float
    """When the event was last seen (unix seconds)."""
    message: str = ""
    count: int = 1

    @property
    def line(self) -> str:
        """Return the event in the form of a line of `kubectl get events`."""
        return f"Warning   {self.reason}   {self.kind.lower()}/{self.name}   {self.message}".rstrip()


def read_events(text: str) -> list[KubeEvent]:
    """Return the events of pods and nodes whose reason is in `RULES`, oldest first, at most the newest 2000.

    Events without a time are left out. Empty if the text is no list.
    """
    found = [event for item in _items(text) if (event := _event(item)) is not None]
    return sorted(found, key=lambda event: event.at)[-MAX_EVENTS:]


def read_ends(text: str) -> list[KubeEvent]:
    """Return an event for each container in a list of pods that ended by `OOMKilled`, at most 2000.

    No Kubernetes event reports these. Empty if the text is no list.
    """
    return [event for item in _items(text) for event in _ends(item)][:MAX_EVENTS]


def _items(text: str) -> Sequence[Mapping[str, Any]]:
    try:
        return items_of(text)
    except NoListError:
        return []


def _event(item: Mapping[str, Any]) -> KubeEvent | None:
    about, series = _mapping(item, "involvedObject"), _mapping(item, "series")
    reason, kind, name = item.get("reason"), about.get("kind"), about.get("name")
    if not (isinstance(reason, str) and isinstance(name, str)) or reason not in RULES:
        return None
    if kind not in ("Pod", "Node"):
        return None
    at = next(
        (
            at
            for each in (series.get("lastObservedTime"), item.get("lastTimestamp"), item.get("eventTime"))
            if (at := _moment(each)) is not None
        ),
        None,
    )
    if at is None:
        return None
    count = series.get("count") or item.get("count") or 1
    uid = str(_mapping(item, "metadata").get("uid") or f"{kind}/{name}/{reason}")[:200]
    message = str(item.get("message") or "")[:MAX_MESSAGE_CHARS]
    return KubeEvent(
        uid, reason, kind, name, at, message, count if isinstance(count, int) and 0 < count < 1 << 31 else 1
    )


def _ends(item: Mapping[str, Any]) -> Iterator[KubeEvent]:
    name = _mapping(item, "metadata").get("name")
    statuses = _mapping(item, "status").get("containerStatuses")
    for status in statuses if isinstance(statuses, list) and isinstance(name, str) else ():
        for kept in ("state", "lastState") if isinstance(status, dict) else ():
            ended = _mapping(_mapping(status, kept), "terminated")
            at = _moment(ended.get("finishedAt"))
            if ended.get("reason") == "OOMKilled" and at is not None:
                container = str(status.get("name"))[:253]
                message = f"container {container} exceeded its memory limit"
                yield KubeEvent(f"{name}/{container}/{at:.0f}", "OOMKilled", "Pod", str(name), at, message)


def _mapping(item: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = item.get(key)
    return found if isinstance(found, dict) else {}


def _moment(text: object) -> float | None:
    """Return the unix seconds of `2026-11-26T14:26:50Z`; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None
    return at if 0.0 < at < 1e11 else None
