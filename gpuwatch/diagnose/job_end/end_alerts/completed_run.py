"""Lowers what a scheduler still reports of a job whose ranks all reached the last step. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from gpuwatch.diagnose.error_outcome.recovery_by_steps import Recovery, may_recover, softened
from gpuwatch.diagnose.error_outcome.refutation import BY_STEPS
from gpuwatch.diagnose.error_outcome.step_track import StepTrack, reached
from gpuwatch.diagnose.job_end.job_end import JobEnd
from gpuwatch.diagnose.job_end.planned_end import CAUGHT_SIGTERM
from gpuwatch.diagnose.job_end.training_tracks import main_tracks, rank_ends
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    FINISHED,
    MEMORY_KILLS,
    PRECURSORS,
    QUIET_ALONE,
    of_kinds,
)

SCHEDULING = of_kinds("scheduling")
"""Classes about starting, placing and ending processes; a scheduler retries these."""
ACTORS = of_kinds("ends_after_steps")
"""Classes of reports that processes of a complete run ended."""
TEARDOWN = of_kinds("ends_in_turn")
"""Classes about peers, and about files that another process has removed already."""
STOP_SIGNALS = of_kinds("launcher_signalled", "caught_sigterm")
PROGRAM_FAULT = of_kinds("program_fault")
"""Classes of faults that a program causes itself on a GPU, for which the driver ends it."""


def with_completed_run(alerts: Iterable[Alert], end: JobEnd, tracks: Sequence[StepTrack]) -> list[Alert]:
    """Return the alerts; if every rank reached the last step, those that ended no rank become `info`.

    These are undated scheduler events, and processes whose end the kernel logged while all ranks stepped on
    (other programs of the node). `kubectl get events` and `describe` give ages without a log line; only the
    end of the whole job shows that the pods started after all.

    Args:
        alerts: With the severities that later steps and lines gave them.
        end: How the job ended.
        tracks: The steps of its ranks.
    """
    alerts = list(alerts)
    if end.state != "finished" or end.early or not is_complete(tracks):
        return alerts
    stepping = {track.file for track in tracks}
    recovery = Recovery(None, None, finished=True)
    return [
        softened(alert, recovery) if _is_event(alert, stepping) or _is_outlived(alert, tracks) else alert
        for alert in alerts
    ]


def with_passed_pressure(alerts: Iterable[Alert], end: JobEnd) -> list[Alert]:
    """Return the alerts; a precursor of a failure in training that finished without one becomes `info`."""
    if end.state != "finished":
        return list(alerts)
    return [
        structs.replace(alert, severity="info")
        if alert.severity == "warning" and alert in PRECURSORS and alert in BY_STEPS
        else alert
        for alert in alerts
    ]


def without_teardown(alerts: Iterable[Alert], end: JobEnd, tracks: Sequence[StepTrack]) -> list[Alert]:
    """Return the alerts; those that a normal end also causes become `info` below the line about the end.

    Below the last step of a complete run, Ray's reports that its actors ended also become `info`.
    """
    alerts = list(alerts)
    ends = {(alert.proof[0].file, alert.proof[0].offset or 0) for alert in alerts if alert in FINISHED}
    steps = {(track.file, track.marks[-1].offset or 0) for track in main_tracks(tracks)}
    steps = steps if is_complete(tracks) else set()
    if end.state != "finished" or not (ends or steps):
        return alerts
    return [
        structs.replace(alert, severity="info", recovered=True)
        if alert.severity != "info"
        and (
            (_ends_with_job(alert) and _is_below(alert, ends))
            or (_is_signal(alert) and _is_below(alert, ends or steps))
            or (alert in ACTORS and _is_below(alert, steps))
        )
        else alert
        for alert in alerts
    ]


def _ends_with_job(alert: Alert) -> bool:
    """Return True if processes log the alert about each other as they end in turn, or as they clean up."""
    return not alert.kernel and (alert in QUIET_ALONE or alert in TEARDOWN)


def _is_signal(alert: Alert) -> bool:
    """Return True for a launcher's report that it received a signal to stop, as from a scheduler's epilog."""
    return not alert.kernel and (alert in STOP_SIGNALS or alert in CAUGHT_SIGTERM)


def _is_below(alert: Alert, ends: Iterable[tuple[str | None, int]]) -> bool:
    """Return True if an alert stands below one of the (file, offset) of `ends`."""
    proof = alert.proof[0]
    return any(file == proof.file and offset < (proof.offset or 0) for file, offset in ends)


def is_complete(tracks: Sequence[StepTrack]) -> bool:
    """Return True if a total is announced and every rank that logs steps reached it."""
    main = main_tracks(tracks)
    total = max((track.total_steps for track in main if track.total_steps is not None), default=None)
    files: dict[str, int] = {}
    for track in main:
        files[track.file] = max(files.get(track.file, 0), track.marks[-1].step)
    return (
        total is not None
        and all(reached(step, total) for step in files.values())
        and all(reached(each.step, total) for each in rank_ends(main))
    )


def _is_outlived(alert: Alert, tracks: Sequence[StepTrack]) -> bool:
    """Return True if the kernel logged the end of a process and all ranks stepped on afterwards."""
    if (
        not alert.kernel
        or not alert.timed
        or not (alert in MEMORY_KILLS or alert in EXITS or alert in PROGRAM_FAULT)
    ):
        return False
    last_steps = [track.marks[-1].at for track in main_tracks(tracks)]
    return bool(last_steps) and all(at is not None and at > alert.last for at in last_steps)


def _is_event(alert: Alert, stepping: set[str]) -> bool:
    file = alert.proof[0].file if alert.proof else None
    return (
        (alert in SCHEDULING or alert in CAUGHT_SIGTERM)
        and not alert.timed
        and file not in stepping
        and may_recover(alert)
    )
