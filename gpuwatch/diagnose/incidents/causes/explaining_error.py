"""Finds the error that caused another error or the end of a process.

Example: torchrun reports that rank 3 exited with 1, rank 3's traceback ends in `NCCL error: unhandled cuda
error`, and the kernel logs an Xid 79 of rank 3's GPU. From the exit the row "class that explains it" leads to
the NCCL error and on to the Xid, which no row leads further: the Xid is the cause, and it gets rank 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence

from msgspec import Struct, structs

from gpuwatch.diagnose.incidents.causes.cause_precedence import GPU_FAULTS, precedence
from gpuwatch.diagnose.incidents.causes.grouping import is_precursor
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    ABOUT_ANOTHER,
    EXITS,
    GENERIC_EXCEPTIONS,
    PEER_CONNECTION_ERRORS,
    PRECURSORS,
    SCHEDULER,
    TAKES_MEMBERS,
    TIMEOUTS,
    explains,
    of_kinds,
)

SAME_MOMENT_S = 2.0
KERNEL_S = 30.0
"""Seconds by which a kernel or scheduler line may be dated later than the end that it explains."""
SAME_ROW_S = 1.0
"""Seconds within which two ends in torchrun's table count as simultaneous: its times are in whole seconds."""
EXPLAINED_S = 600.0
"""Seconds for which a rank's traceback explains its exit."""
LOGGED_BYTES = 16384
"""An exception with traceback stands at most this far above the launcher's line about the exit (bytes)."""
NO_CAUSE = TIMEOUTS | EXITS | PRECURSORS | PEER_CONNECTION_ERRORS | SCHEDULER
MILD_ENDS = of_kinds("mild_end")
"""Ends that may be just the consequence of lost peers."""


def raised_by(cause: Alert, alerts: Sequence[Alert]) -> Alert | None:
    """Return the exception behind the end or exception `cause`, of a rank its last; None if there is none."""
    if cause.rank is None and cause in EXITS and cause.fields.get("tasks") is not None:  # Slurm's tasks
        return next((each for each in _logged_above(alerts, cause) if each in GENERIC_EXCEPTIONS), None)
    if cause in EXITS and cause.fields.get("proc_index") is not None:  # its parent logs the exception below
        below = [each for each in alerts if each in GENERIC_EXCEPTIONS and _is_below(each, cause)]
        return min(below, key=lambda each: each.proof[0].offset or 0, default=None)
    if cause.rank is None or (cause not in EXITS and cause not in GENERIC_EXCEPTIONS):
        return None
    own = [each for each in alerts if each in GENERIC_EXCEPTIONS and each.rank == cause.rank]
    return max(own, key=lambda each: (each.first, each.id), default=None)


def _is_below(alert: Alert, cause: Alert) -> bool:
    """Return True if the alert's line is below the cause's in its file, within the length of a traceback."""
    proof, other = alert.proof[0], cause.proof[0]
    between = (proof.offset or 0) - (other.offset or 0)
    return (proof.node, proof.file) == (other.node, other.file) and 0 < between <= LOGGED_BYTES


def explained(best: Alert, alerts: Sequence[Alert]) -> Alert:
    """Return the alert that caused `best` by the rows of `LINKS`, followed to their end, or `best` itself.

    A cause found by a row that ends at a rank gets the rank and node of the end; another one gets the place
    that other lines give.
    """
    if best.node is None and best.rank is None:  # the scheduler states it twice, once with the node
        best = next((each for each in alerts if each.code == best.code and each.node is not None), best)
    seen = {best.id}
    while True:
        link, causes = _causes(best, alerts, seen)
        if link is None:
            return _placed(best, alerts)
        cause = min(causes, key=lambda alert: (precedence(alert), alert.first))
        if link.ends_at_rank and best.rank is not None:
            if link.may_be_of_another(best, alerts):
                return cause
            return structs.replace(cause, node=best.node or cause.node, rank=best.rank)
        best = cause
        seen.add(best.id)


def _causes(
    best: Alert, alerts: Sequence[Alert], seen: Container[str]
) -> tuple[CausalLink | None, list[Alert]]:
    """Return the first of `LINKS` that finds causes of `best` not in `seen`, and these; (None, []): none."""
    for link in LINKS:
        if link.of(best):
            causes = [alert for alert in link.find(alerts, best) if alert.id not in seen]
            if causes:
                return link, causes
    return None, []


def _explaining(alerts: Sequence[Alert], effect: Alert) -> list[Alert]:
    """Return the alerts at the same place whose class explains the effect's, written before or soon after."""
    return [
        alert
        for alert in alerts
        if explains(alert, effect)
        and _same_place(alert, effect)
        and not _is_launcher_exit_report(alert, effect)
        and -EXPLAINED_S <= alert.first - effect.first <= KERNEL_S
    ]


def _is_launcher_exit_report(alert: Alert, best: Alert) -> bool:
    """Return True if `best` is the exception of a known rank and the alert only reports some rank's end."""
    return best in GENERIC_EXCEPTIONS and best.rank is not None and alert.rank is None and alert in MILD_ENDS


def _only_exception(alerts: Sequence[Alert], ended: Alert) -> list[Alert]:
    """Return the errors near a launcher's report that names no rank, if only one rank logged any.

    If several ranks logged errors, return the uppermost error above the report in its file; else [].
    """
    raised = [
        alert
        for alert in alerts
        if alert.rank is not None
        and (alert in GENERIC_EXCEPTIONS or is_own_error(alert))
        and -EXPLAINED_S <= alert.first - ended.first <= SAME_MOMENT_S
    ]
    if len({alert.rank for alert in raised}) == 1:
        return raised
    above = [
        each for each in raised if _share_file(each, ended) and 0 < _bytes_above(each, ended) <= LOGGED_BYTES
    ]
    return sorted(above, key=lambda alert: alert.proof[0].offset or 0)[:1]


def _bytes_above(error: Alert, ended: Alert) -> int:
    return (ended.proof[0].offset or 0) - (error.proof[0].offset or 0)


def is_own_error(alert: Alert) -> bool:
    """Return True if a process logged the error about itself, and it is more than an end or a lost peer."""
    return (
        alert.role in ("root", "first")
        and alert.severity in ("error", "critical")
        and (alert not in NO_CAUSE or (alert in PRECURSORS and not is_precursor(alert)))
        and not alert.kernel
    )


def _logged_above(alerts: Sequence[Alert], ended: Alert) -> list[Alert]:
    """Return the errors without a rank above the launcher's line about the first rank to end, in one file.

    An exception that any rank may have raised counts only if it is the only one.
    """
    proof = ended.proof[0]
    found = [
        alert
        for alert in alerts
        if alert.rank is None
        and is_own_error(alert)
        and (alert.proof[0].node, alert.proof[0].file) == (proof.node, proof.file)
        and 0 < (proof.offset or 0) - (alert.proof[0].offset or 0) <= LOGGED_BYTES
    ]
    known = [alert for alert in found if alert not in GENERIC_EXCEPTIONS]
    return known or (found if len({alert.text for alert in found}) == 1 else [])


def may_be_of_another(ended: Alert, alerts: Sequence[Alert]) -> bool:
    """Return True if an error without a rank may be of another rank than the first one in torchrun's table.

    If two ranks raised before torchrun looked, its table has one time for both, and orders them by
    number. A lost connection without a rank is then the error of either.
    """
    lost = [alert for alert in alerts if alert in PEER_CONNECTION_ERRORS and alert.rank is None]
    status = ended.fields.get("exitcode")
    return any(_share_file(alert, ended) for alert in lost) and any(
        alert.code == ended.code
        and alert.rank not in (None, ended.rank)
        and "table_entry" in alert.fields
        and alert.fields.get("exitcode") == status
        and abs(alert.first - ended.first) < SAME_ROW_S
        for alert in alerts
    )


def is_above(error: Alert, ended: Alert, within_bytes: float = math.inf) -> bool:
    """Return True if an own error (`is_own_error`) is at most `within_bytes` above an end in one file."""
    own = ended in EXITS and is_own_error(error)
    return own and _share_file(error, ended) and 0 < _bytes_above(error, ended) <= within_bytes


def is_above_line(error: Alert, ended: Alert, within_bytes: float) -> bool:
    """Return True if an error is at most `within_bytes` above the line about an end, in the same file."""
    return _share_file(error, ended) and 0 < _bytes_above(error, ended) <= within_bytes


def first_report(best: Alert, alerts: Sequence[Alert]) -> Alert:
    """Return the uppermost report of the same error above `best` in its file that names a rank, else `best`.

    A watchdog repeats under `Last error:`, without a rank, what its NCCL printed with one.
    """
    if best.rank is not None or best.timed or best.kernel:
        return best
    above = [
        each
        for each in alerts
        if each.code == best.code
        and each.rank is not None
        and each.fields.get("peer") == best.fields.get("peer")
        and _share_file(each, best)
        and 0 < _bytes_above(each, best) <= LOGGED_BYTES
    ]
    return min(above, key=lambda alert: alert.position, default=best)


def _share_file(one: Alert, other: Alert) -> bool:
    return (one.proof[0].node, one.proof[0].file) == (other.proof[0].node, other.proof[0].file)


def _first_peer_error(alerts: Sequence[Alert], ended: Alert) -> list[Alert]:
    """Return the first error about a peer above the end of the only process known to have ended, in its file.

    Empty if other ranks ended or were reported as lost: the error may be about one of them.
    """
    others = {alert.rank for alert in alerts if alert in EXITS} - {ended.rank, None}
    lost = {alert.rank for alert in alerts if alert in PEER_CONNECTION_ERRORS} - {ended.rank, None}
    if others or lost:
        return []
    proof = ended.proof[0]
    above = [
        alert
        for alert in alerts
        if alert in PEER_CONNECTION_ERRORS
        and alert.role in ("root", "first")
        and alert.severity in ("error", "critical")
        and (alert.proof[0].node, alert.proof[0].file) == (proof.node, proof.file)
        and 0 < (proof.offset or 0) - (alert.proof[0].offset or 0) <= LOGGED_BYTES
    ]
    return sorted(above, key=lambda alert: alert.proof[0].offset or 0)[:1]


def _placed(cause: Alert, alerts: Sequence[Alert]) -> Alert:
    """Return the cause with the place that another line gives: the launcher's, below it, or the scheduler's.

    Unchanged if it has a place or no line gives one.
    """
    if cause.rank is None and (cause.kernel or cause.node is None):
        cause = _of_rank_that_suffered(cause, alerts)
    if cause.node is not None or cause.rank is not None or cause in SCHEDULER:
        return cause
    ended = min(
        (each for each in alerts if each in EXITS and each.rank is not None and each.role == "first"),
        key=lambda each: (each.first, each.position),
        default=None,
    )
    if ended is not None and cause in _logged_above(alerts, ended):
        return structs.replace(cause, node=ended.node, rank=ended.rank, job=ended.job or cause.job)
    same = [each for each in alerts if each.role == "root" and explains(cause, each)]
    found = next((each for each in same if each.node is not None and _one_process(cause, each)), None)
    if found is None:
        return cause
    if not cause.kernel:
        return found
    return structs.replace(cause, node=found.node, rank=found.rank, gpu=found.gpu, job=found.job or cause.job)


def _of_rank_that_suffered(cause: Alert, alerts: Sequence[Alert]) -> Alert:
    """Return the cause; if it is a fault of a GPU and one rank alone suffers from it, with that rank."""
    effects = {
        alert.rank
        for alert in alerts
        if alert.node == cause.node
        and alert.rank is not None
        and (None in (alert.gpu, cause.gpu) or alert.gpu == cause.gpu)
        and cause.first - alert.first <= KERNEL_S
        and alert not in PEER_CONNECTION_ERRORS
        and alert.severity in ("error", "critical")
        and explains(cause, alert)
    }
    return structs.replace(cause, rank=effects.pop()) if cause in GPU_FAULTS and len(effects) == 1 else cause


def _one_process(one: Alert, other: Alert) -> bool:
    """Return True unless the two alerts name different processes."""
    pids = {alert.fields["pid"] for alert in (one, other) if isinstance(alert.fields.get("pid"), int)}
    return len(pids) < 2


def _earlier_errors(alerts: Sequence[Alert], ended: Alert) -> list[Alert]:
    """Return the errors that the rank of `ended` logged up to then; no waits, lost peers, bare exceptions."""
    return [
        alert
        for alert in alerts
        if alert.rank is not None
        and alert.rank == ended.rank
        and alert.role != "echo"
        and alert not in TIMEOUTS
        and alert not in EXITS
        and not is_precursor(alert)
        and alert not in PEER_CONNECTION_ERRORS
        and alert not in GENERIC_EXCEPTIONS
        and alert.severity in ("error", "critical")
        and -EXPLAINED_S <= alert.first - ended.first <= SAME_MOMENT_S
    ]


def _same_place(cause: Alert, effect: Alert) -> bool:
    """Return True if the cause's place, as far as known, covers the effect's; a scheduler's covers any."""
    if cause in SCHEDULER or effect in SCHEDULER:
        return True
    if cause in TAKES_MEMBERS and effect in ABOUT_ANOTHER and cause.rank is None:
        return True
    if cause.rank is not None and effect.rank is not None:
        return cause.rank == effect.rank
    if cause.node is None or effect.node is None:
        return cause.rank is None
    if cause.node != effect.node:
        return False
    return cause.gpu is None or effect.gpu is None or cause.gpu == effect.gpu


class CausalLink(Struct, frozen=True):
    """One way in which an alert of a group leads to an earlier one that caused it."""

    name: str
    of: Callable[[Alert], bool]
    """Returns True for the effects to which the row applies."""
    find: Callable[[Sequence[Alert], Alert], list[Alert]]
    """Returns the causes among the alerts of the group."""
    ends_at_rank: bool = False
    """True if the search ends: the cause of a rank's end has no rank, and is then that rank's."""
    may_be_of_another: Callable[[Alert, Sequence[Alert]], bool] = lambda _ended, _alerts: False
    """Returns True if the cause may be another rank's, and thus stays without one."""


LINKS = (
    CausalLink("class that explains it", lambda _: True, _explaining),
    CausalLink("earlier error of the rank", lambda a: a in EXITS or a in GENERIC_EXCEPTIONS, _earlier_errors),
    CausalLink(
        "error above the launcher's line",
        lambda alert: alert in EXITS and alert.rank is not None,
        _logged_above,
        ends_at_rank=True,
        may_be_of_another=may_be_of_another,
    ),
    CausalLink("only exception", lambda alert: alert in EXITS and alert.rank is None, _only_exception),
    CausalLink("last lost peer", lambda a: a in MILD_ENDS, _first_peer_error, ends_at_rank=True),
)
"""The causal links in order: the first row that finds a cause counts."""
