"""The end of a rank whose exit status its agent read: the event and its alert."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import EXIT_CODES, EXITS
from gpuwatch.wire import Event

RANK_ENDED, LAUNCHER_ENDED = "rank_ended", "launcher_ended"
"""Names of the events."""
OBSERVED = f"{RANK_ENDED}:"
"""Prefix of the ids of alerts about observed ends."""
ANNOUNCED_BYTES = 1024
"""A launcher's lines about one end lie within this many bytes."""
SAME_END_S = 60.0
"""A launcher reports the end of a rank within this time (seconds)."""


def status_of(events: Iterable[Event], pid: int, start: float | None) -> int | None:
    """Return the exit status of a process; None if its agent did not read it.

    `start`: start of the process in unix seconds on the node; an earlier end is that of another process.
    """
    found = (each for each in events if each.event == RANK_ENDED and each.pid == pid)
    return next((each.code for each in found if start is None or each.t >= start), None)


def is_observed(alert: Alert) -> bool:
    """Return True if the alert is the observed end of a rank."""
    return alert.id.startswith(OBSERVED)


def without_doubled_ends(alerts: Iterable[Alert]) -> list[Alert]:
    """Return the alerts without observed ends that a log line, which has more context, also reports.

    A launcher's line without a rank directly above one that names the rank is left out, too.
    """
    every = list(alerts)
    ends = [alert for alert in every if alert in EXIT_CODES]
    anonymous = [alert for alert in ends if alert.rank is None]
    announcing = {upper.id for upper in anonymous if any(_announces(upper, below) for below in ends)}
    alerts = [alert for alert in every if alert.id not in announcing]
    stated: dict[int | None, list[float]] = {}
    for alert in alerts:
        if alert in EXITS and not (alert.refuted or is_observed(alert)):
            stated.setdefault(alert.rank, []).append(alert.first)
    return [
        alert
        for alert in alerts
        if not is_observed(alert)
        or not any(abs(at - alert.first) <= SAME_END_S for at in stated.get(alert.rank, ()))
    ]


def _announces(alert: Alert, below: Alert) -> bool:
    """Return True if `alert` reports that some rank ended, and `below` names the rank a few lines below."""
    if alert not in EXIT_CODES or alert.rank is not None or below.rank is None:
        return False
    if "exitcode" in alert.fields or "signal" in alert.fields or not (alert.proof and below.proof):
        return False
    upper, lower = alert.proof[0], below.proof[0]
    same = (upper.node, upper.file) == (lower.node, lower.file) and upper.file is not None
    return same and 0 < (lower.offset or 0) - (upper.offset or 0) <= ANNOUNCED_BYTES
