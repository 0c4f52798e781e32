"""The end of a rank whose exit status its agent read: its event, and the alert that is made of it."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import EXITS
from gpuwatch.wire import Event

RANK_ENDED = "rank_ended"
"""The event."""
OBSERVED = f"{RANK_ENDED}:"
"""Begins the ids of such alerts."""
TERMINATED = "rank.terminated"
GENERIC_END = "rank.exit_error"
ANNOUNCED_BYTES = 1024
"""The lines of a launcher about one end stand in a block of so many bytes."""
SAME_END_S = 60.0
"""A launcher reports the end of a rank within this."""


def status_of(events: Iterable[Event], pid: int, start: float | None) -> int | None:
    """The status with which a process ended, where its agent read it. `start`: unix seconds there."""
    found = (each for each in events if each.event == RANK_ENDED and each.pid == pid)
    return next((each.code for each in found if start is None or each.t >= start), None)


def is_observed(alert: Alert) -> bool:
    """Whether it is the end of a rank whose status its agent read."""
    return alert.id.startswith(OBSERVED)


def without_doubled_ends(alerts: Iterable[Alert]) -> list[Alert]:
    """The alerts without observed ends that a launcher's line states too: it stands below the errors.

    Nor is a launcher's line kept that only announces the one below it, which states the rank.
    """
    every = list(alerts)
    ends = [alert for alert in every if alert.code == GENERIC_END]
    anonymous = [alert for alert in ends if alert.rank is None]
    announcing = {upper.id for upper in anonymous if any(_announces(upper, below) for below in ends)}
    alerts = [alert for alert in every if alert.id not in announcing]
    stated: dict[int | None, list[float]] = {}
    for alert in alerts:
        if alert.code in EXITS and not is_observed(alert):
            stated.setdefault(alert.rank, []).append(alert.first)
    return [
        alert
        for alert in alerts
        if not is_observed(alert)
        or not any(abs(at - alert.first) <= SAME_END_S for at in stated.get(alert.rank, ()))
    ]


def _announces(alert: Alert, below: Alert) -> bool:
    """Whether a line states the end of some rank, and one close below it of which and how."""
    if alert.code != GENERIC_END or alert.rank is not None or below.code != alert.code or below.rank is None:
        return False
    if "exitcode" in alert.fields or "signal" in alert.fields or not (alert.proof and below.proof):
        return False
    upper, lower = alert.proof[0], below.proof[0]
    same = (upper.node, upper.file) == (lower.node, lower.file) and upper.file is not None
    return same and 0 < (lower.offset or 0) - (upper.offset or 0) <= ANNOUNCED_BYTES
