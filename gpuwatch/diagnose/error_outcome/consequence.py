"""Severity follows consequence: what a line states about its own outcome, and faults that passed. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import structs

from gpuwatch.agent.logs.lines.levels import level
from gpuwatch.diagnose.error_outcome.recovery_by_steps import TRACEBACK
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.failure_classes import EXITS, LAUNCHER, SCHEDULER
from gpuwatch.wire import Severity

GRAVE: tuple[Severity, ...] = ("error", "critical")
SAVED_S = 900.0
"""A time limit so soon after a checkpoint costs no more than these seconds of work."""
LAST_LINES = 2
"""Of a log: a program that states there how it goes on did not."""
AFTERMATH_S = 1800.0
"""A fault that passed brought about nothing where no failure follows within the default timeout of NCCL."""

CORRECTED: Mapping[str, tuple[object, ...]] = {"pcie.aer": (), "kernel.mce": ("CE", "Corrected", "corrected")}
"""Class -> the kinds of its errors that the hardware corrected; empty: all."""
MANY_CORRECTED = 100
"""So many in one log speak for a part that will fail."""

GOES_ON = re.compile(
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
GIVES_UP = re.compile(
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
    """The alerts, with less severity where nothing came of them.

    A fault that passed is a note where nothing failed. A line that states how the program goes on (another
    transport, one more try) is a warning at most where the log goes on, and so is one of level WARNING about
    what others did.

    Args:
        alerts: With what their ranks did afterwards.
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
    """Live: the alerts, less grave where their line states how the program goes on, and its log does.

    Args:
        alerts: With what their ranks did afterwards.
        goes_on: Whether it is known that the log of an alert has lines below it.
        saves: When checkpoints were written (unix seconds).
    """
    known = [_as_reported(alert, ()) if goes_on(alert) else alert for alert in alerts]
    return [
        _judged(alert, (), saves, saved_last=False) if alert.state == "firing" else alert for alert in known
    ]


def followed_nothing(alert: Alert) -> Alert:
    """An alert of no incident: what only follows a failure (a peer left) is a warning where none is known."""
    if alert.role == "echo" and alert.severity in GRAVE and not _raised(alert):
        return structs.replace(alert, severity="warning")
    return alert


def _raised(alert: Alert) -> bool:
    """Whether the line ends a traceback that no later step follows."""
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
    if alert.severity not in GRAVE:
        return alert
    limit = alert.code == "slurm.time_limit"
    late = alert.timed and any(0.0 <= alert.first - saved <= SAVED_S for saved in saves)
    if limit and (saved_last or late):
        return structs.replace(alert, severity="warning")
    return alert


def _is_corrected(alert: Alert) -> bool:
    """Whether the hardware corrected a few errors, which cost nothing."""
    kinds = CORRECTED.get(alert.code)
    errors = alert.fields.get("errors")
    many = alert.count >= MANY_CORRECTED or (isinstance(errors, int) and errors >= MANY_CORRECTED)
    return kinds is not None and not many and (not kinds or alert.fields.get("kind") in kinds)


def _may_follow(failure: Alert, fault: Alert) -> bool:
    """Whether a failure may come of a fault: it is not older, and not much younger."""
    return not failure.timed or -1.0 <= failure.first - fault.first <= AFTERMATH_S + fault.last - fault.first


def severity_of_incident(cause: Alert | None, alerts: Sequence[Alert]) -> Severity:
    """The gravest; of a job that was ended on purpose without the ends of its processes."""
    if cause is not None and cause.code in SCHEDULER:
        alerts = [cause, *(alert for alert in alerts if not _is_an_end(alert))]
    return min((alert.severity for alert in alerts), key=ORDER.index)


def _is_an_end(alert: Alert) -> bool:
    return alert.code in EXITS or alert.code in LAUNCHER or alert.code in SCHEDULER
