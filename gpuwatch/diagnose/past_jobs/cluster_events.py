"""Lowers events of the cluster that had no effect on a job: pods that started, ends before it began. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import structs

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.error_outcome.by_lines.recovery_by_lines import Reader
from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import EXITS, MEMORY_KILLS, of_kinds
from gpuwatch.diagnose.past_jobs.recovered_alerts import with_recovered
from gpuwatch.runs.files.excerpts.around import Around
from gpuwatch.whole_number import SECONDS_OF

MAX_EVENT_CHARS = 1000
"""Most characters of a line that are searched."""
_AGE = r"(?P<age>(?:\d{1,6}[dhms]){1,4})?(?: \(x\d{1,6} over [\dhmsd]{2,16}\))?"
_BLANKS = r"\s{0,100}"
_OBJECT = r"(?P<object>[a-z]{2,20}/[\w.-]{1,253})"
_NOT_STARTED = pattern_of(
    rf"^{_BLANKS}{_AGE}{_BLANKS}Warning\s+(?:Failed\w*|ErrImage\w+|ImagePull\w+|InspectFailed|NetworkNotReady)\s+{_OBJECT}\s"
)
"""Matches an event about a pod that could not be placed, prepared or started."""
_STARTED = pattern_of(rf"^{_BLANKS}{_AGE}{_BLANKS}Normal\s+(?:Started|Running)\s+{_OBJECT}\s")
START_S = 3600.0
"""Seconds before a job's first step within which the kernel's events may be of its start."""
OF_PROCESSES = EXITS | MEMORY_KILLS | of_kinds("program_fault")
"""Classes of events that end one process, and leave nothing broken."""


def with_started_pods(alerts: Iterable[Alert], read: Reader) -> list[Alert]:
    """Return the alerts; those whose lines are events about pods that then started become `info`.

    `read`: returns the lines around an alert, None if they are unknown.
    """
    return with_recovered(alerts, read, _may_have_started, _has_started)


def _may_have_started(alert: Alert) -> bool:
    return alert.severity != "info" and are_start_failures(_lines(alert))


def _has_started(alert: Alert, around: Around) -> bool:
    return started_later(_lines(alert), around)


def _lines(alert: Alert) -> list[str]:
    return [proof.text for proof in alert.proof if proof.kind == "line"]


def are_start_failures(texts: Sequence[str]) -> bool:
    """Return True if all lines, at least one, are events about a pod that did not start."""
    return bool(texts) and all(_NOT_STARTED.search(text, 0, MAX_EVENT_CHARS) for text in texts)


def started_later(texts: Iterable[str], around: Around) -> bool:
    """Return True if all pods that events of a file report as not started have started since.

    The age in the first column decides which event is later, without one the order of the lines.

    Args:
        texts: The lines of the error.
        around: The lines of its file.
    """
    failed: dict[str, tuple[float, int]] = {}
    started: dict[str, tuple[float, int]] = {}
    for number, line in enumerate((*around.above, *texts, *around.below, *around.last)):
        for pattern, found in ((_NOT_STARTED, failed), (_STARTED, started)):
            event = pattern.search(line, 0, MAX_EVENT_CHARS)
            if event is not None:
                moment = (-seconds(event["age"]), number)
                found[event["object"]] = max(moment, found.get(event["object"], moment))
    return all(name in started and started[name] > moment for name, moment in failed.items())


def seconds(age: str | None) -> float:
    """Return the seconds of an age such as `9m12s`; 0 if there is none."""
    return sum(int(number) * SECONDS_OF[unit] for number, unit in re.findall(r"(\d+)([dhms])", age or ""))


def without_earlier_events(alerts: Iterable[Alert], tracks: Sequence[StepTrack]) -> list[Alert]:
    """Return the alerts; ends of processes long before the job's first step become `info`.

    Alerts of ranks are kept: an earlier attempt of the job may have had them.
    """
    firsts = [mark.at for track in tracks for mark in track.marks[:1] if mark.at is not None]
    begin = min(firsts, default=None)
    if begin is None:
        return list(alerts)
    return [
        structs.replace(alert, severity="info") if _is_before(alert, begin) else alert for alert in alerts
    ]


def _is_before(alert: Alert, begin: float) -> bool:
    known = alert.kernel and alert.timed and alert.rank is None
    return known and alert.last < begin - START_S and alert in OF_PROCESSES
