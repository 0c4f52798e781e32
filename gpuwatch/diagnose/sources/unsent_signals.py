"""Finds a rank that ended by a SIGTERM which its launcher did not send: a possible cause. Pure.

Example: an administrator sends SIGTERM to rank 1. Torchrun logs `Sending process 410 closing signal SIGTERM`
for rank 0, and both ranks end by the signal. Torchrun logs each signal that it sends, so rank 1 got
its signal from elsewhere, and ended first.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.failure_classes import (
    PEER_CONNECTION_ERRORS,
    SCHEDULER,
    SIGNALLED,
    STOPS_RANKS,
    TERMINATED,
)

STOPPED = SCHEDULER | SIGNALLED
"""The stop of a whole job."""
SAME_STOP_S = 60.0
"""Most seconds between the ends of the ranks and the launcher's signals."""


def with_unsent_signals(alerts: Sequence[Alert]) -> list[Alert]:
    """Return the alerts; the end of the only rank that its launcher sent no signal becomes an error."""
    promoted: set[str] = set()
    for node, job in {(alert.node, alert.job) for alert in alerts if alert in STOPS_RANKS and alert.node}:
        here = [alert for alert in alerts if (alert.node, alert.job) == (node, job)]
        sent = [alert for alert in here if alert in STOPS_RANKS]
        last = max(alert.last for alert in sent)
        ends = [each for each in here if each in TERMINATED and abs(each.first - last) <= SAME_STOP_S]
        of_pid = {each.fields.get("pid"): each.rank for each in here if each.rank is not None}
        signalled = {
            of_pid.get(each.fields.get("pid", "")) if each.rank is None else each.rank for each in sent
        }
        signalled -= {None}
        ranks = {alert.rank for alert in ends} - {None} - signalled
        whole = sum(alert.count for alert in sent) == len(signalled)
        near = [each for each in alerts if each.node == node and each.job in (None, job)]
        others = [each for each in near if each not in ends]
        if whole and len(ranks) == 1 and not any(_is_other_cause(alert, last) for alert in others):
            promoted |= {alert.id for alert in ends if alert.rank in ranks}
    return [
        structs.replace(alert, role="first", severity="error") if alert.id in promoted else alert
        for alert in alerts
    ]


def _is_other_cause(alert: Alert, at: float) -> bool:
    """Return True if an alert within SAME_STOP_S of `at` is another cause: a stop of the job, an error.

    Lost connections do not count.
    """
    grave = alert.role in ("root", "first") and alert.severity in GRAVE
    is_cause = alert in STOPPED or (grave and alert not in PEER_CONNECTION_ERRORS)
    return is_cause and abs(alert.first - at) <= SAME_STOP_S
