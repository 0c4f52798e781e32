"""Restores the severity of exceptions that a wrapper logged at level INFO, if the job stopped after them.

Pure. Example: `INFO [Rank 1] OSError: [Errno 116] Stale file handle` is a note by its level. No rank logs two

further steps, the job stops at step 143 of 9,000, and no line of another level states why: the exception is
an error. Wrappers log all of a process's output at one level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.error_outcome.recovery_by_steps import PROOF_STEPS, later_marks
from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.job_end.job_end import JobEnd, is_failure
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import RulePacks

RAISED = pattern_of(r"(?:^|[\s\]])(?:[a-z_]\w{0,40}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception): \S")
"""Matches an exception in a line of a logger."""


def with_quiet_errors(
    alerts: Sequence[Alert], tracks: Iterable[StepTrack], end: JobEnd, packs: RulePacks
) -> list[Alert]:
    """Return the alerts; notes about exceptions after which no rank stepped get the severity of their rule.

    Unchanged unless the job stopped without a signal, and without another failure.

    Args:
        alerts: The alerts from the lines of the job, with the severities that later lines gave them.
        tracks: The steps of its ranks.
        end: How the job ended.
        packs: The rules, which state the severities.
    """
    if end.state != "stopped" or end.signal is not None or any(map(is_failure, alerts)):
        return list(alerts)
    marks = list(tracks)
    return [
        structs.replace(alert, severity=packs.by_id[alert.code].severity)
        if alert.code in packs.by_id and _is_last_of(alert, marks)
        else alert
        for alert in alerts
    ]


def _is_last_of(alert: Alert, tracks: Iterable[StepTrack]) -> bool:
    """Return True if a note is about an exception, and no rank logs `PROOF_STEPS` steps or more after it."""
    if alert.severity != "info" or alert.recovered or alert.kernel or not alert.proof:
        return False
    raised = any(RAISED.search(proof.text) for proof in alert.proof)
    return raised and all(len(later_marks(alert, track)) < PROOF_STEPS for track in tracks)
