"""Ends of ranks that their agents saw, beside what the logs and launchers of the job state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from gpuwatch.diagnose.error_outcome.observed_end import TERMINATED, is_observed
from gpuwatch.diagnose.error_outcome.recovery_by_steps import FINISHED
from gpuwatch.diagnose.model.alert import Alert

TEARDOWN_S = 120.0
"""So long after the line that a training finished its processes may end, with an error or without."""
KILL_S = 5.0, 120.0
"""A launcher kills what has not ended so long after it asked for that (torchrun, Slurm: 30 s)."""


def with_observed_ends(alerts: Sequence[Alert]) -> list[Alert]:
    """The alerts; ends of ranks are notes after a training finished, echoes where it was being stopped."""
    if not any(map(is_observed, alerts)):
        return list(alerts)
    finished = [(alert.job, alert.first) for alert in alerts if alert.code == FINISHED]
    asked = [(alert.job, alert.first) for alert in alerts if alert.code == TERMINATED]
    return [
        structs.replace(alert, severity="info", role="hint")
        if _came_after(alert, finished, 0.0, TEARDOWN_S)
        else structs.replace(alert, severity="info", role="echo")
        if alert.code == "rank.killed" and _came_after(alert, asked, *KILL_S)
        else alert
        for alert in alerts
    ]


def _came_after(
    alert: Alert, moments: Iterable[tuple[str | None, float]], least_s: float, most_s: float
) -> bool:
    return is_observed(alert) and any(
        job in (None, alert.job) and least_s <= alert.first - at <= most_s for job, at in moments
    )
