"""The confidence in a root cause, and the reason for it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.incidents.causes.explaining_error import raised_by
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import EXITS, GENERIC_EXCEPTIONS, TERMINATED, end_weight
from gpuwatch.diagnose.model.incident import UNKNOWN
from gpuwatch.diagnose.model.verdict import Confidence
from gpuwatch.number_text import plural


def confidence_of(cause: Alert, named: Sequence[int], alerts: Sequence[Alert]) -> tuple[Confidence, str]:
    """Return the confidence in a root cause, and why. `named`: the culprits that its line lists."""
    if named:
        return "high", "the job itself names the ranks"
    if cause.code == HANG:
        return _reported_with(cause), "based on GPU and process state; no log line shows it"
    if cause.code == UNKNOWN:
        return _reported_with(cause), "the logs end early; no line states why"
    if cause.kernel and not cause.doubt:
        return _confidence_of_kernel(cause)
    if cause in EXITS or cause in GENERIC_EXCEPTIONS:
        return _confidence_of_end(cause, alerts)
    if cause.role == "first":
        return (
            "medium",
            "no earlier cause found, but it may itself be the consequence of something not logged",
        )
    return "high", f"a root cause, and {_standing(cause, alerts)}"


def _standing(cause: Alert, alerts: Sequence[Alert]) -> str:
    """Return text on how a root cause relates to the other reports, such as `older than the other reports`.

    Without a timestamp the cause is only `the strongest of the reports`.
    """
    if all(each.id == cause.id or each.severity == "info" for each in alerts):
        return "the only error that is reported"
    return "older than the other reports" if cause.timed else "the strongest of the reports"


def _confidence_of_kernel(cause: Alert) -> tuple[Confidence, str]:
    if not cause.writer_unknown:
        return "high", "reported by the kernel or the driver"
    name = PurePosixPath(cause.proof[0].file or "").name
    return "medium", f"{name} has the line, but the job's user may have written that file"


def _reported_with(cause: Alert) -> Confidence:
    stated = cause.fields.get("confidence")
    return "high" if stated == "high" else "medium" if stated == "medium" else "low"


def _confidence_of_end(cause: Alert, alerts: Sequence[Alert]) -> tuple[Confidence, str]:
    if raised_by(cause, alerts) is not None:
        others = {each.rank for each in alerts if each in GENERIC_EXCEPTIONS} - {cause.rank}
        if not others:
            return "high", "it raised an exception, and no other rank did"
        return "medium", f"{plural(len(others), 'other rank')} raised an exception too"
    if cause in TERMINATED and cause.role == "first":
        return (
            "medium",
            "no launcher reports that it sent the signal, and the others only lost their connections",
        )
    if end_weight(cause) >= 2:
        return "low", "an abort usually follows from something else, which is not logged"
    return "medium", "only how the process ended is known, not why"
