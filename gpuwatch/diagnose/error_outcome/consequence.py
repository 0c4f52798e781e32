"""Lowers severities by consequence: faults without effect, and errors that state a milder outcome. Pure.

Example: an error line `no InfiniBand device, falling back to Socket` becomes a warning if the log goes on
below it. PCIe errors that the hardware corrected become `info` where nothing failed; a hundred of them in one
log do not. The scheduler's time limit becomes a warning if a checkpoint was saved just before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from gpuwatch.agent.logs.lines.levels import level
from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.error_outcome.recovery_by_steps import TRACEBACK
from gpuwatch.diagnose.error_outcome.refutation import UNSAVED
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import GRAVE, ORDER
from gpuwatch.diagnose.model.failure_classes import EXITS, LAUNCHER, SCHEDULER, of_kinds
from gpuwatch.wire import Severity

SAVED_S = 900.0
"""Seconds between a checkpoint and a time limit within which the limit is a warning: little work is lost."""
LAST_LINES = 2
"""Number of last lines of a log; a fallback that is announced there was not followed by work."""
AFTERMATH_S = 1800.0
"""Seconds after a fault without a failure, after which the fault had no effect.

It is torch's longest default timeout.
"""

CORRECTED, CORRECTED_IF_STATED = of_kinds("corrected"), of_kinds("corrected_if_stated")
"""Classes of errors that the hardware corrects: all of them, and those whose field `kind` states it."""
STATES_CORRECTED = ("CE", "Corrected", "corrected")
"""Values of the field `kind` by which an error was corrected."""
TIME_LIMIT = of_kinds("time_limit")
MANY_CORRECTED = 100
"""Number of corrected errors in one log from which they suggest a failing part."""

GOES_ON = pattern_of(
    r"(?i)\b(?:fall(?:s|ing|en)?[ -]?back (?:to|on)|fell back|using .{1,60} instead|ignoring (?:it|this)"
    r"|(?:is|are|was|were|will be) (?:ignored|retried|skipped)|left out|switch(?:ed|ing) (?:over )?to"
    r"|(?:tried|taken|read|collected) again|will (?:try again|retry)|retrying"
    r"|trying (?:again|another|the next)|backing off|attempt \d+ ?(?:/|of) ?\d+ failed"
    r"|(?:continuing|proceeding|carrying on|going on) (?:without|with|anyway|in|on|as|under)"
    r"|non-?fatal|not fatal|(?:raised|failed|killed) on purpose"
    r"|(?:de|re)(?:creasing|ducing) (?:the )?(?:micro)?batch)\b"
    r"|as expected\b|\((?:ignored|expected|harmless|optional)\)"
    r"|[,;:(] ?(?:ignored|skipped|dropped|disabled)\)?\.?\s*$"
    r"|batch ?size (?:was )?(?:de|re)(?:creased|duced)"
)
GIVES_UP = pattern_of(
    r"(?i)\b(?:exceeded|exhausted|gave up|giving up|no more (?:retries|attempts)|abort(?:ed|ing)?"
    r"|cannot continue|last attempt|all \d+ attempts)\b"
)


def without_harm(
    alerts: Iterable[Alert],
    saves: Sequence[float] = (),
    ends: tuple[str, ...] = (),
    *,
    saved_last: bool = False,
) -> list[Alert]:
    """Return the alerts, with lower severity where they had no effect.

    A fault that passed becomes `info` if no failure may have followed from it. A line that announces a
    fallback (another transport, a retry) is at most a warning if the log continues, and so is a line of
    level WARNING about other ranks. A time limit soon after a checkpoint becomes a warning. Errors that the
    hardware corrected become `info` if nothing failed, and a failed save if a later checkpoint was written.

    Args:
        alerts: The alerts, with the severities that later steps gave them.
        saves: When checkpoints were written (unix seconds).
        ends: The last lines of the logs, without the prefixes of launchers.
        saved_last: Whether a checkpoint was written below the last step.
    """
    alerts = [_as_reported(alert, ends) for alert in alerts]
    failures = [alert for alert in alerts if alert.severity in GRAVE and alert.state == "firing"]
    return [_judged(alert, failures, saves, saved_last=saved_last) for alert in alerts]


def with_reported_outcome(
    alerts: Iterable[Alert], goes_on: Callable[[Alert], bool], saves: Sequence[float]
) -> list[Alert]:
    """Return the alerts of live logs, with lower severity where they had no effect.

    A line that announces a fallback (another transport, a retry) becomes a warning if its log continues.
    Corrected errors, time limits and failed saves that fire are lowered as by `without_harm`.

    Args:
        alerts: The alerts, with the severities that later steps gave them.
        goes_on: Returns True if the log of an alert is known to have lines below the alert.
        saves: When checkpoints were written (unix seconds).
    """
    known = [_as_reported(alert, ()) if goes_on(alert) else alert for alert in alerts]
    return [
        _judged(alert, (), saves, saved_last=False) if alert.state == "firing" else alert for alert in known
    ]


def followed_nothing(alert: Alert) -> Alert:
    """Return the given alert, which is part of no incident; an error about another rank becomes a warning.

    It stays an error if its line ends a traceback after which the rank did not continue.
    """
    if alert.role == "echo" and alert.severity in GRAVE and not _raised(alert):
        return structs.replace(alert, severity="warning")
    return alert


def _raised(alert: Alert) -> bool:
    """Return True if the alert's line ends a traceback and the rank did not continue."""
    return not alert.recovered and any(TRACEBACK in line for proof in alert.proof[:1] for line in proof.lines)


def _as_reported(alert: Alert, ends: tuple[str, ...]) -> Alert:
    text = alert.proof[0].text if alert.proof else ""
    if alert.severity not in GRAVE or alert.kernel or text.rstrip().endswith(ends):
        return alert
    goes_on = GOES_ON.search(text) is not None and GIVES_UP.search(text) is None
    mild = alert.role == "echo" and level(text) == "warning"
    return structs.replace(alert, severity="warning") if goes_on or mild else alert


def _judged(alert: Alert, failures: Sequence[Alert], saves: Sequence[float], *, saved_last: bool) -> Alert:
    if not failures and alert.severity == "warning" and _is_corrected(alert):
        return structs.replace(alert, severity="info")
    if alert.state == "resolved" and not any(_may_follow(each, alert) for each in failures):
        return structs.replace(alert, severity="info")
    if alert.severity == "warning" and _is_made_up_for(alert, saves):
        return structs.replace(alert, severity="info")
    if alert.severity not in GRAVE:
        return alert
    limit = alert in TIME_LIMIT
    late = alert.timed and any(0.0 <= alert.first - saved <= SAVED_S for saved in saves)
    if limit and (saved_last or late):
        return structs.replace(alert, severity="warning")
    return alert


def _is_corrected(alert: Alert) -> bool:
    """Return True if the hardware corrected these errors and they are fewer than MANY_CORRECTED."""
    stated = alert in CORRECTED_IF_STATED and alert.fields.get("kind") in STATES_CORRECTED
    errors = alert.fields.get("errors")
    many = alert.count >= MANY_CORRECTED or (isinstance(errors, int) and errors >= MANY_CORRECTED)
    return not many and (stated or alert in CORRECTED)


def _is_made_up_for(alert: Alert, saves: Sequence[float]) -> bool:
    """Return True if state was not saved, the rank went on, and a later checkpoint was written."""
    lost = alert in UNSAVED and alert.recovered and alert.timed
    return lost and any(saved > alert.last for saved in saves)


def _may_follow(failure: Alert, fault: Alert) -> bool:
    """Return True if a failure may result from a fault: it has no time, or one that fits.

    It must not be over 1 s older than the fault, and begin at most AFTERMATH_S after its last report.
    """
    return not failure.timed or -1.0 <= failure.first - fault.first <= AFTERMATH_S + fault.last - fault.first


def severity_of_incident(cause: Alert | None, alerts: Sequence[Alert]) -> Severity:
    """Return the highest severity of the alerts.

    If the scheduler cancelled the job (`cause`), the ends of its processes do not count.
    """
    if cause is not None and cause in SCHEDULER:
        alerts = [cause, *(alert for alert in alerts if not _is_an_end(alert))]
    return min((alert.severity for alert in alerts), key=ORDER.index)


def _is_an_end(alert: Alert) -> bool:
    return alert in EXITS or alert in LAUNCHER or alert in SCHEDULER
