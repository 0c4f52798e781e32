"""Lowers the severity of a requested end before which the job saved its state: nothing is lost. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.job_end.closing import LogEnd
from gpuwatch.diagnose.last_lines.endings import states_good_end
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.failure_classes import PEER_CONNECTION_ERRORS, SCHEDULER, SIGNALLED, of_kinds

PLANNED = SCHEDULER | of_kinds("prints_on_stop")
"""Classes of lines that a job prints when it is ended on purpose."""
INTERRUPTED = of_kinds("interrupted")
CANCELLED = of_kinds("cancelled")
CAUGHT_SIGTERM = of_kinds("caught_sigterm")
ENDED_WITH = PEER_CONNECTION_ERRORS | of_kinds("follows_interrupt")
"""Classes of lines that the ranks of an interrupted launcher log."""
BEFORE_S, AFTER_S = 5.0, 40.0
"""Seconds before and after the launcher's own line; it waits 30 s for its ranks before it kills them."""

_ASKED = pattern_of(
    r"(?i)\bsig(?:int|term|usr[12]|hup|cont)\b|\bsignal\b|\bkeyboard ?interrupt|\^C|\binterrupt(?:ed|ion)?\b"
    r"|\b(?:time|wall)[ _-]?(?:limit|out is near|is (?:nearly )?up|left|box)|\bout of time\b|\bwalltime\b"
    r"|\b\d+ (?:s|sec|seconds|min|minutes) (?:are )?left\b|\bstop (?:was )?requested\b|\bcancel\w*"
    r"|\bpreempt\w*|\brequeu\w*|\basked to (?:stop|end)\b"
)
"""Matches a program's report that it was asked to end."""
_SAVED = pattern_of(
    r"(?i)\b(?:checkpoint|ckpt|state|model|snapshot|weights)\w*\b.{0,80}\b(?:saved|written|stored|committed"
    r"|complete[d]?|done)\b"
    r"|\b(?:saved|wrote|written|stored)\b.{0,80}(?:\b(?:checkpoint|state|model|snapshot|weights)|ckpt|/\w)"
)
_NOT_SAVED = pattern_of(
    r"(?i)\b(?:not|never|fail\w*|errors?|could|cannot|unable|partial\w*|incomplete|skipp\w*|before|last saved"
    r"|aborted|exception)\b|n't\b"
)
_BY_USER = pattern_of(
    r"(?i)\^C|\bkeyboard ?interrupt|\bSIGINT\b|\bby (?:the )?user\b|\bscancel\b"
    r"|\buser (?:asked|requested|stop)|\btime[ -]?box|\bctrl[- ]?c\b"
)
_INTERRUPTED = pattern_of(
    r"\^C|got signal: (?:Signals\.)?(?:2|SIGINT)\b|Received (?:Signals\.)?(?:2|SIGINT) death signal"
)
_AGAIN = pattern_of(
    r"(?i)\b(?:requeu(?:ed|eing|ing)|requeing|requeue|resubmit(?:ted|ting)?|resubmission"
    r"|submitted (?:the )?(?:follow|next|continuation|batch job)\w*|scontrol requeue)\b"
)


_SERVICE_STOPS = pattern_of(
    r"(?i)\b(?:received|got|caught) sig(?:nal )?(?:term|15)\b.{0,20}"
    r"\b(?:stopping|shutting down|exiting|graceful\w*)\b"
    r"|\bsigterm\b.{0,20}\b(?:stopping|shutting down|graceful\w*)\b"
)
"""Matches a service's report that it shuts down on a signal."""


class Leave(NamedTuple):
    """How a job reacted to the request to end: whether it saved, was meant to end, and ended well."""

    saved: bool
    """True if the job saved its state on the request."""
    meant: bool
    """True if the job's user ended it, or it continues in a new job."""
    closed: bool = False
    """True if the last line of the log states a good end."""


def leave_of(lines: Sequence[str]) -> Leave:
    """Return how a job reacted to a request to end, from the last lines of a log."""
    asked = next((number for number, line in enumerate(lines) if _ASKED.search(line)), None)
    if asked is None:
        return Leave(saved=False, meant=False)
    below = lines[asked:]
    saved = any(_SAVED.search(line) and not _NOT_SAVED.search(line) for line in below)
    meant = any(_BY_USER.search(line) or _AGAIN.search(line) for line in below)
    return Leave(saved, meant, states_good_end(below[-1]))


def with_planned_ends(alerts: Iterable[Alert], closings: Mapping[str, LogEnd]) -> list[Alert]:
    """Return the alerts; a requested end before which the job saved its state becomes a warning.

    The end becomes `info` if the user ended the job or it was requeued. If the log then states a good end,
    the signal and Slurm's cancellation without a reason (scancel) also become `info`. If there is any other
    failure, only interruptions and services that shut down are lowered.

    Args:
        alerts: The alerts, with the severities that later steps and lines gave them.
        closings: File -> how its log ends.
    """
    alerts = [_of_service(alert, closings) for alert in with_interruption(alerts)]
    if any(alert.severity in GRAVE and alert not in PLANNED for alert in alerts):
        return alerts
    leaves = [leave_of(each.lines) for each in closings.values()]
    if not any(leave.saved for leave in leaves):
        return alerts
    meant = any(leave.meant for leave in leaves if leave.saved)
    closed = any(leave.closed for leave in leaves if leave.saved)
    return [
        _judged(alert, meant=meant or (closed and alert in CAUGHT_SIGTERM | CANCELLED)) for alert in alerts
    ]


def _of_service(alert: Alert, closings: Mapping[str, LogEnd]) -> Alert:
    """Return the alert; it becomes `info` if it is the SIGTERM of a service that shut down.

    Such an alert has no rank, its line announces the shutdown, and the last lines of its file name no step,
    epoch, iteration or loss.
    """
    file = alert.proof[0].file if alert.proof else None
    stopped = alert in CAUGHT_SIGTERM and alert.rank is None and file in closings
    if not stopped or _SERVICE_STOPS.search(alert.proof[0].text) is None:
        return alert
    ends = closings[file or ""].lines
    work = any(re.search(r"(?i)\b(?:step|epoch|iter\w{0,6}|loss)\b", line) for line in ends)
    return alert if work else structs.replace(alert, severity="info")


def with_interruption(alerts: Iterable[Alert]) -> list[Alert]:
    """Return the alerts; the user's interruption (Ctrl-C) of a launcher, and its consequences, become `info`.

    A rank that was interrupted lost its peers for the same reason. If Slurm cancelled the job and stopped the
    launcher, the launcher's signal is a symptom: a warning.
    """
    alerts = list(alerts)
    cancelled = [(alert.first, alert.job) for alert in alerts if alert in CANCELLED]
    alerts = [
        structs.replace(alert, severity="warning", role="echo")
        if alert in SIGNALLED and alert.severity in GRAVE and _is_near(alert, cancelled)
        else alert
        for alert in alerts
    ]
    interrupted = {(alert.job, alert.rank) for alert in alerts if alert in INTERRUPTED}
    moments = [(alert.first, alert.job) for alert in alerts if _is_interruption(alert)]
    return [
        structs.replace(alert, severity="info", role="hint" if alert in SIGNALLED else alert.role)
        if _is_interruption(alert)
        or (alert in ENDED_WITH and _is_near(alert, moments))
        or (alert in PEER_CONNECTION_ERRORS and (alert.job, alert.rank) in interrupted)
        else alert
        for alert in alerts
    ]


def _is_interruption(alert: Alert) -> bool:
    """Return True if SIGINT (a key in its terminal) ended a launcher."""
    return alert in SIGNALLED and any(_INTERRUPTED.search(proof.text) for proof in alert.proof)


def _is_near(alert: Alert, moments: Iterable[tuple[float, str | None]]) -> bool:
    return any(
        at - BEFORE_S <= alert.first <= at + AFTER_S and (alert.job == job or None in (alert.job, job))
        for at, job in moments
    )


def _judged(alert: Alert, *, meant: bool) -> Alert:
    if alert not in PLANNED or alert.severity == "info":
        return alert
    return structs.replace(alert, severity="info" if meant else "warning")
