"""Lowers Kubernetes start failures after which the pod started, as later events show. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.error_outcome.by_lines.recovery_by_lines import Reader
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.past_jobs.recovered_alerts import with_recovered
from gpuwatch.runs.files.excerpts.around import Around

MAX_EVENT_CHARS = 1000
"""Most characters of a line that are searched."""
_AGE = r"(?P<age>(?:\d{1,6}[dhms]){1,4})?(?: \(x\d{1,6} over [\dhmsd]{2,16}\))?"
_OBJECT = r"(?P<object>[a-z]{2,20}/[\w.-]{1,253})"
_NOT_STARTED = pattern_of(
    rf"^\s*{_AGE}\s*Warning\s+(?:Failed\w*|ErrImage\w+|ImagePull\w+|InspectFailed|NetworkNotReady)\s+{_OBJECT}\s"
)
"""Matches an event about a pod that could not be placed, prepared or started."""
_STARTED = pattern_of(rf"^\s*{_AGE}\s*Normal\s+(?:Started|Running)\s+{_OBJECT}\s")
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


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
    failed: dict[str, tuple[int, int]] = {}
    started: dict[str, tuple[int, int]] = {}
    for number, line in enumerate((*around.above, *texts, *around.below, *around.last)):
        for pattern, found in ((_NOT_STARTED, failed), (_STARTED, started)):
            event = pattern.search(line, 0, MAX_EVENT_CHARS)
            if event is not None:
                moment = (-seconds(event["age"]), number)
                found[event["object"]] = max(moment, found.get(event["object"], moment))
    return all(name in started and started[name] > moment for name, moment in failed.items())


def seconds(age: str | None) -> int:
    """Return the seconds of an age such as `9m12s`; 0 if there is none."""
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([dhms])", age or ""))
