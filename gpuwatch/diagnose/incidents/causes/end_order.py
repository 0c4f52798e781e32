"""Root cause from the order in which a job's ranks disappeared, where no log line explains it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpuwatch.diagnose.incidents.causes.alert_job import GAP_S
from gpuwatch.diagnose.incidents.causes.grouping import AlertGroup
from gpuwatch.diagnose.incidents.causes.root_cause import root_cause_of
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import FINISHED, PEER_CONNECTION_ERRORS, TIMEOUTS, VANISHED


def end_order(group: AlertGroup, orders: Mapping[str, Alert], alerts: Iterable[Alert]) -> Alert | None:
    """Return the end-order alert that explains a group, or None.

    None if a line of the group gives a cause, the job finished, or the first ranks to end lost peers too.

    Args:
        group: The alerts of one job in one period.
        orders: The end-order alerts, from `EndOrderWatch.alerts`.
        alerts: All alerts: a line may state that the job finished.
    """
    near = [one for one in orders.values() if one.job == group.job and _is_near(one, group.begin, group.end)]
    if not near or not _lost_only_peers(group.alerts):
        return None
    order = near[-1]
    lost = {str(each.rank) for each in group.alerts if each in PEER_CONNECTION_ERRORS}
    ended = any(
        each in FINISHED and each.job == order.job and _is_near(order, each.first, each.last)
        for each in alerts
    )
    return None if ended or lost.issuperset(str(order.fields["ranks"]).split()) else order


def _lost_only_peers(alerts: Sequence[Alert]) -> bool:
    """Return True if no line gives a reason: at most connections broke.

    False if a rank timed out, or if an alert of its own reports a rank that vanished.
    """
    if any(each in TIMEOUTS or each.code == VANISHED for each in alerts):
        return False
    cause = root_cause_of(alerts).cause
    return cause is None or cause in PEER_CONNECTION_ERRORS


def _is_near(order: Alert, begin: float, end: float) -> bool:
    return begin - GAP_S <= order.first <= end + GAP_S
