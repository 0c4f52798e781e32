"""Observed ends of ranks, combined with what logs and launchers of the job report. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import structs

from gpuwatch.diagnose.error_outcome.observed_end import is_observed
from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import FINISHED, RANK_ENDS, TERMINATED, of_kinds

TEARDOWN_S = 120.0
"""Seconds after the report of a finished training within which its processes may end, even with an error."""
CRASHES = of_kinds("teardown_crash")
"""Ends of processes whose libraries crash during teardown."""
KILLS = of_kinds("killed")
ENDED_HANG = of_kinds("ends_hang")
"""Ends of the ranks of a hung job: killed by a person, or by the watchdog."""
KILL_S = 5.0, 120.0
"""Seconds after the request to end within which a launcher kills the remaining processes.

Torchrun and Slurm wait 30 s.
"""


def with_observed_ends(alerts: Sequence[Alert]) -> list[Alert]:
    """Return the alerts; observed ends that a finished training, a stop or a hang explains become `info`.

    Ends after a finished training become hints. Kills after a stop, and kills and aborts after a hang, are
    symptoms (role `echo`).
    """
    if not any(map(is_observed, alerts)):
        return list(alerts)
    finished = [alert for alert in alerts if alert in FINISHED and not alert.doubt]
    hung = [(alert.job, alert.last) for alert in alerts if alert.code == HANG]
    asked = [(alert.job, alert.first) for alert in alerts if alert in TERMINATED and alert in RANK_ENDS]
    return [
        structs.replace(alert, severity="info", role="hint")
        if any(_tore_down(alert, each) for each in finished)
        else structs.replace(alert, severity="info", role="echo")
        if (alert in KILLS and _came_after(alert, asked, *KILL_S))
        or (alert in ENDED_HANG and _came_after(alert, hung, 0.0, math.inf))
        else alert
        for alert in alerts
    ]


def _tore_down(alert: Alert, finished: Alert) -> bool:
    """Return True if an end followed the report that its job finished, within TEARDOWN_S.

    Unless the end is a crash in the teardown, the report must be from its own node.
    """
    own = any(proof.node == alert.node for proof in finished.proof)
    after = is_observed(alert) and 0.0 <= alert.first - finished.first <= TEARDOWN_S
    return after and finished.job == alert.job and (own or alert in CRASHES)


def _came_after(
    alert: Alert, moments: Iterable[tuple[str | None, float]], least_s: float, most_s: float
) -> bool:
    return is_observed(alert) and any(
        job in (None, alert.job) and least_s <= alert.first - at <= most_s for job, at in moments
    )
