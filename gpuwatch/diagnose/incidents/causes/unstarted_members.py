"""The member of a job that never started, for which the others waited at the rendezvous. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.failure_classes import RENDEZVOUS_TIMEOUTS, of_kinds

NEVER_STARTED = of_kinds("never_started")
"""Classes of containers and pods that were not started."""
POD_STATE = of_kinds("pod_state")
"""Classes of the states of a pod, some of which mean that it was never started."""
_NOT_STARTED = re.compile(
    r"ErrImagePull|ImagePullBackOff|InvalidImageName|Failed to pull image|StartError|ContainerCannotRun"
    r"|(?:Run|Create)Container\w{0,20}Error|FailedMount|FailedAttachVolume|FailedCreatePodSandBox"
    r"|failed to create (?:containerd|shim) task|OCI runtime create failed|failed to start container"
)
"""States and messages of containers whose program never ran."""


def unstarted_member(cause: Alert, alerts: Sequence[Alert]) -> Alert | None:
    """Return the report that a member's container never started, if the cause is that the others waited.

    None: there is no such report, or there are some of several nodes. A container that ran and ended may
    have ended because of the same wait.
    """
    if cause not in RENDEZVOUS_TIMEOUTS:
        return None
    found = [alert for alert in alerts if _is_of_unstarted(alert) and alert.node != (cause.node or "")]
    nodes = {alert.node for alert in found}
    return min(found, key=lambda alert: (alert.first, alert.position)) if len(nodes) == 1 else None


def _is_of_unstarted(alert: Alert) -> bool:
    if alert.severity not in GRAVE or alert.recovered or alert.state != "firing":
        return False
    text = alert.proof[0].text if alert.proof else ""
    stated = f"{alert.fields.get('status', '')} {text}"
    return alert in NEVER_STARTED or (alert in POD_STATE and _NOT_STARTED.search(stated) is not None)
