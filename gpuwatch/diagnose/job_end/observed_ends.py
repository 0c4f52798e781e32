"""Ends of ranks that their agents saw, beside what the logs and launchers of the job state. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import structs

from gpuwatch.diagnose.error_outcome.observed_end import TERMINATED, is_observed
from gpuwatch.diagnose.error_outcome.recovery_by_steps import FINISHED
from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.model.alert import Alert

TEARDOWN_S = 120.0
"""So long after the line that a training finished its processes may end, with an error or without."""
CRASHES = ("rank.abort", "rank.segfault", "rank.bus_error", "rank.exit_error")
"""How processes end whose libraries fail as they are taken down."""
ENDED_HANG = ("rank.killed", "rank.abort")
"""How the ranks of a job end that hangs: somebody kills it, or its watchdog ends it."""
KILL_S = 5.0, 120.0
"""A launcher kills what has not ended so long after it asked for that (torchrun, Slurm: 30 s)."""


def with_observed_ends(alerts: Sequence[Alert]) -> list[Alert]:
    """The alerts, with ends of ranks as notes after the training finished, as echoes of a hang or a stop."""
    if not any(map(is_observed, alerts)):
        return list(alerts)
    finished = [alert for alert in alerts if alert.code == FINISHED and not alert.doubt]
    hung = [(alert.job, alert.last) for alert in alerts if alert.code == HANG]
    asked = [(alert.job, alert.first) for alert in alerts if alert.code == TERMINATED]
    return [
        structs.replace(alert, severity="info", role="hint")
        if any(_tore_down(alert, each) for each in finished)
        else structs.replace(alert, severity="info", role="echo")
        if (alert.code == "rank.killed" and _came_after(alert, asked, *KILL_S))
        or (alert.code in ENDED_HANG and _came_after(alert, hung, 0.0, math.inf))
        else alert
        for alert in alerts
    ]


def _tore_down(alert: Alert, finished: Alert) -> bool:
    """Whether an end followed a line that its job finished; a kill is excused by its own node alone."""
    own = any(proof.node == alert.node for proof in finished.proof)
    after = is_observed(alert) and 0.0 <= alert.first - finished.first <= TEARDOWN_S
    return after and finished.job == alert.job and (own or alert.code in CRASHES)


def _came_after(
    alert: Alert, moments: Iterable[tuple[str | None, float]], least_s: float, most_s: float
) -> bool:
    return is_observed(alert) and any(
        job in (None, alert.job) and least_s <= alert.first - at <= most_s for job, at in moments
    )
