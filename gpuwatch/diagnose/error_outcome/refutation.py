"""States what the later steps of a rank prove about an error, by the kind of the error.

Steps prove that the rank lives and computes. That refutes an error which a program retries, catches or
skips. It does not refute a lost GPU that the rank does not use, a checkpoint that nobody wrote, samples that
are gone, or replicas that differ without an error: after these errors the later steps may be worthless.

One more kind of error is one more row in `REFUTATIONS`, with its example as a test.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import GRAVE, ORDER
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    FILE_SYSTEMS,
    LAUNCHER,
    NODE_FAILURES,
    PEER_CONNECTION_ERRORS,
    TIMEOUTS,
    of_kinds,
)
from gpuwatch.diagnose.stated_loss.statement import stated_loss
from gpuwatch.wire import Severity

SIGN = "sign"
"""Name of the field with the words that state the trouble, in findings of rules for general words."""
HARDWARE = of_kinds("hardware")
"""Classes of the hardware and the kernel."""
BY_STEPS = of_kinds("by_steps")
"""Classes that rest on the steps themselves."""
PORTS = of_kinds("port")
"""Classes of network ports, for which another may stand in, and which a job that reports it may not need."""
STAYS_WARNING = of_kinds("stays_warning")
"""Classes of what was not saved or could not be used, which later steps do not make up for."""
LASTING_CLASSES = of_kinds("lasting")
"""Further classes that no later step resolves: broken hardware, damaged data, a lost node, no GPU."""
CATCHABLE = of_kinds("catchable")
"""Classes that a program can catch: later steps resolve them, also in the hardware.

After others (a dead process, a hang, a lost GPU) only a normal end of the program shows that they did no
harm.
"""
_READ_ELSEWHERE = re.compile(
    r"(?i)\bread\w{0,4}\b.{0,200}\b(?:replica|mirror|other copy|another copy|instead|attempt|retry\w*)\b"
)
_EXCEPTION = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Warning)\b")
"""Matches the name of an exception, which a program caught."""
DIFFER = of_kinds("compares_replicas")
STAYS_LOST, TRANSIENT, CORRUPT = (of_kinds(each) for each in ("stays_lost", "transient_fault", "corrupt"))
LOSSES = of_kinds("stated_loss")
"""Classes of losses that the job states in general words."""
UNSAVED = of_kinds("unsaved")
"""Classes of state that was not saved; a later checkpoint makes up for it."""


@dataclass(frozen=True)
class Refutation:
    """The severities that are left for one kind of error after later steps, and after the job's end.

    These are the highest severities; None: the alert stays unchanged.
    """

    name: str
    applies: Callable[[Alert], bool]
    after_steps: Severity | None
    after_end: Severity | None
    example: str
    """A line of this kind."""
    by_words: bool = False
    """True if the words of the line can show that the loss remains."""
    remains: bool = False
    """True if what is lost stays lost even though the rank continues."""

    @property
    def lasts(self) -> bool:
        """True if neither steps nor the end of the job change the alert."""
        return self.after_steps is None and self.after_end is None


def _is_stated(alert: Alert) -> bool:
    return SIGN in alert.fields


def _is_hardware(alert: Alert) -> bool:
    return (alert in HARDWARE or alert in BY_STEPS) and alert not in CATCHABLE


REFUTATIONS = (
    Refutation(
        "loss that stays", lambda alert: alert in STAYS_LOST, "warning", "warning",
        "going on with 7 of 8 nodes", remains=True,
    ),
    Refutation(
        "part of the machine, in the job's own words",
        lambda alert: _is_stated(alert) and alert in HARDWARE,
        "warning", "warning", "we lost GPU 5 on this node", remains=True,
    ),
    Refutation("broken hardware, kernel, or verdict on the steps", _is_hardware, None, None, "Xid 79"),
    Refutation(
        "replicas that differ, in the job's own words",
        lambda alert: _is_stated(alert) and alert in DIFFER,
        "warning", "warning", "parameter hash of rank 2 differs from rank 0", remains=True,
    ),
    Refutation(
        "result that a second run does not give", lambda alert: alert in TRANSIENT,
        "warning", "warning", "Possible transient error!",
    ),
    Refutation(
        "damage without an error", lambda alert: alert in DIFFER, None, None,
        "Parameter hashes not matching across DP replicas",
    ),
    Refutation(
        "node whose loss the job outlived", lambda alert: alert in LASTING_CLASSES and alert in NODE_FAILURES,
        "warning", "warning", "node 10.1.0.7 has been marked dead", remains=True,
    ),
    Refutation(
        "lasting fault of a device, node or file", lambda alert: alert in LASTING_CLASSES, None, None,
        "uncorrectable ECC error encountered",
    ),
    Refutation(
        "loss in the job's own words", lambda alert: _is_stated(alert) and alert in LOSSES,
        "warning", "warning", "world size is 1 but 8 was requested", remains=True,
    ),
    Refutation(
        "port that another one stands in for", lambda alert: alert in PORTS,
        "warning", "info", "IB port mlx5_3 went down", by_words=True, remains=True,
    ),
    Refutation(
        "damaged checkpoint", lambda alert: alert in CORRUPT, "warning", "info",
        "checkpoint step-4100 is unreadable", remains=True,
    ),
    Refutation(
        "data that another copy or attempt gave",
        lambda alert: alert in FILE_SYSTEMS and bool(_READ_ELSEWHERE.search(alert.proof[0].text)),
        "info", "info", "could not read shard-00881.tar (Errno 5), reading the replica instead",
    ),
    Refutation(
        "state that was not saved", lambda alert: alert in STAYS_WARNING,
        "warning", "warning", "nothing has been saved since step 900", remains=True,
    ),
    Refutation(
        "process that was started again",
        lambda alert: alert.severity in GRAVE and (alert in EXITS or alert in LAUNCHER or alert in TIMEOUTS),
        "warning", "info", "worker 3 exited with code 1",
    ),
    Refutation(
        "error that the program outlived", lambda _: True, "info", "info", "skipping a batch", by_words=True
    ),
)  # fmt: skip
"""The rows of the table; the first row that applies to an alert counts."""


def refutation_of(alert: Alert) -> Refutation:
    """Return the first row of `REFUTATIONS` that applies to an alert."""
    return next(row for row in REFUTATIONS if row.applies(alert))


def left_after(alert: Alert, *, finished: bool) -> Severity:
    """Return the severity that is left after later steps of its rank, or after the end of its job.

    An error that the program outlived stays a warning if its line states a loss that no later line repairs.
    """
    row = refutation_of(alert)
    left = milder(alert.severity, row.after_end if finished else row.after_steps)
    if left != "info" or alert.severity == "info" or not row.by_words:
        return left
    return "warning" if _states_loss(alert) else left


def remains(alert: Alert) -> bool:
    """Return True if what an alert reports stays lost, although its rank or job went on."""
    return alert.severity != "info" and (refutation_of(alert).remains or _states_loss(alert))


def _states_loss(alert: Alert) -> bool:
    if alert in EXITS or alert in LAUNCHER or alert in TIMEOUTS or alert in PEER_CONNECTION_ERRORS:
        return False
    proof = alert.proof[0] if alert.proof else None
    if proof is None or any("Traceback (most recent" in line for line in proof.lines):
        return False
    if _EXCEPTION.search(proof.text):
        return False
    return stated_loss(proof.text) is not None


def milder(one: Severity, most: Severity | None) -> Severity:
    """Return the lower of two severities; `most` None: no limit, return `one`."""
    return one if most is None else max(one, most, key=ORDER.index)
