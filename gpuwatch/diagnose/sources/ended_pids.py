"""Gives a kernel's report about a process to the rank that a launcher's table names with that pid. Pure.

Example: the kernel logs `Xid ... 31, pid=1437` and torchrun's table `rank : 1, exitcode : -6 (pid: 1437)` on
the same node in the same second. The process is gone by then; the table says that it was rank 1.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import EXITS, KERNEL_RULES

NEAR_S = 120.0
"""Most seconds between the two reports; a pid may be given again later."""


def with_ended_pids(alerts: Iterable[Alert]) -> list[Alert]:
    """Return the alerts; those of the kernel about a rank that ended get its rank and job."""
    alerts = list(alerts)
    ends = {
        (alert.node, alert.fields["pid"]): alert
        for alert in alerts
        if alert in EXITS and alert.rank is not None and isinstance(alert.fields.get("pid"), int)
    }
    return [_with_rank(alert, ends.get((alert.node, alert.fields.get("pid", "")))) for alert in alerts]


def _with_rank(alert: Alert, end: Alert | None) -> Alert:
    if end is None or alert.rank is not None or not alert.code.startswith(KERNEL_RULES):
        return alert
    if not end.first - NEAR_S <= alert.last <= end.last + NEAR_S:
        return alert
    return structs.replace(alert, rank=end.rank, rank_from="field", job=alert.job or end.job)
