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
    """The alerts without observed ends that a launcher's line states too: it stands below the errors."""
    alerts = list(alerts)
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
