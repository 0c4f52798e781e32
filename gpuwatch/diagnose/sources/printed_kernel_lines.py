"""Compares kernel lines that a job printed with errors that its ranks report about themselves. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    PEER_CONNECTION_ERRORS,
    PRECURSORS,
    SCHEDULER,
    TIMEOUTS,
    UNEXPLAINED,
    explains,
)

MILD = TIMEOUTS | PRECURSORS | PEER_CONNECTION_ERRORS | SCHEDULER | UNEXPLAINED
NO_OWN_ERROR = MILD | EXITS
"""Classes about peers, launchers and process ends: a kernel fault may be behind them."""


def that_may_lead(alerts: Sequence[Alert]) -> list[Alert]:
    """Return the alerts that may be the root cause.

    Refuted lines are excluded if any other alert is left. An unconfirmed kernel line in a job's log (any
    process can print it) is excluded if its rank reports an error that such a fault does not cause, and a
    doubtful line about another node, or none, if a node that did not send it reports a failure of its own.
    """
    believed = [alert for alert in alerts if not alert.refuted] or list(alerts)
    own = [alert for alert in believed if _is_own_error(alert)]
    believed = [
        alert for alert in believed if not (alert.doubt and any(_yields(alert, each) for each in own))
    ]
    own = [alert for alert in believed if _is_reported_by_its_node(alert)]
    return [
        alert for alert in believed if not (alert.doubt and any(_is_less_than(alert, each) for each in own))
    ]


def _is_reported_by_its_node(alert: Alert) -> bool:
    """Return True if a node reports the failure of its own rank or GPU, and no other node disputes it."""
    grave = alert.severity in ("error", "critical") and alert.role in ("root", "first")
    return grave and not alert.doubt and alert not in MILD and alert.node in _senders(alert)


def _is_less_than(claim: Alert, error: Alert) -> bool:
    """Return True if a doubtful claim, unless about its own node, yields to a report of another node."""
    senders = _senders(claim)
    return claim.node not in senders and not senders & _senders(error)


def _senders(alert: Alert) -> set[str | None]:
    return {proof.node for proof in alert.proof}


def _is_own_error(alert: Alert) -> bool:
    grave = alert.severity in ("error", "critical") and alert.role in ("root", "first")
    return grave and not alert.kernel and alert not in NO_OWN_ERROR


def _yields(claim: Alert, error: Alert) -> bool:
    """Return True if a doubtful kernel claim yields to an unexplained error of its rank or file."""
    if not claim.kernel or explains(claim, error):
        return False
    if claim.rank is not None and error.rank is not None:
        return claim.rank == error.rank
    mine, other = claim.proof[:1], error.proof[:1]
    return bool(mine and other) and (mine[0].node, mine[0].file) == (other[0].node, other[0].file)
