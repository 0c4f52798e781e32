"""Builds the target of an action from the cursor, with the incident whose notes record the result."""

from __future__ import annotations

from gpuwatch.diagnose.actions.action import ActionTarget
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.tui.model.alert_snapshot import AlertSnapshot
from gpuwatch.tui.model.view_state import ViewState


def about_place(
    view_state: ViewState,
    node: str,
    gpu: int | None = None,
    *,
    rank: int | None = None,
    job: str | None = None,
) -> ActionTarget:
    """Return the action target for a node, or for one of its GPUs or ranks.

    The result is noted on the newest active incident that involves the node or the job. `job` defaults to the
    job that the screens show alone.
    """
    job = view_state.scope.job if job is None else job
    incident = next(
        (
            each
            for each in view_state.snapshot.active
            if node == each.node
            or (job is not None and job == each.job)
            or any(alert.node == node for alert in each.alerts)
        ),
        None,
    )
    return _noted_in(incident, ActionTarget(node, gpu, rank, job))


def about_incident(incident: Incident) -> ActionTarget:
    """Return the target for an incident's culprit: its rank, GPU and node, as far as known, and its job.

    If the incident has no rank, the rank is the only culprit of its hang check, if there is exactly one.
    """
    rank = incident.rank
    check = incident.hang_check
    if rank is None and check is not None and len(check.verdict.culprits) == 1:
        rank = check.verdict.culprits[0]
    return _noted_in(incident, ActionTarget(incident.node, incident.gpu, rank, incident.job))


def about_alert(snapshot: AlertSnapshot, alert: Alert) -> ActionTarget | None:
    """Return the target of an action on the place of an alert; None if it has no node, rank or job."""
    incident = next(
        (each for each in snapshot.incidents if any(one.id == alert.id for one in each.alerts)), None
    )
    if alert.node is None and alert.rank is None and alert.job is None:
        return None
    return _noted_in(incident, ActionTarget(alert.node, alert.gpu, alert.rank, alert.job))


def _noted_in(incident: Incident | None, target: ActionTarget) -> ActionTarget:
    if incident is None:
        return target
    about = f"gpuwatch: {incident.code}"
    if incident.gpu is not None and incident.node == target.node:
        about += f", GPU {incident.gpu}"
    check = incident.hang_check
    pausing = () if check is None or target.job not in (None, incident.job) else check.pausing
    return ActionTarget(target.node, target.gpu, target.rank, target.job, incident.id, about, pausing)
