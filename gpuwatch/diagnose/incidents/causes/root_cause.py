"""Select the root cause of a group of alerts.

Example: rank 5's ECC error at 10:00:00, rank 2's NCCL watchdog timeout at 10:10:01, and the launcher's report
at 10:10:03 that rank 2 ended. `exclusions` leaves only the ECC error, as both others are consequences, and
`root_cause_of` returns it without rivals. An equally strong error of rank 6 within `SAME_MOMENT_S` would be a
rival and add a doubt, which lowers the confidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from gpuwatch.agent.logs.lines.levels import GRAVE, own_level
from gpuwatch.diagnose.alerts.deduplication.unexplained import last_resort
from gpuwatch.diagnose.error_outcome.refutation import SIGN
from gpuwatch.diagnose.incidents.causes.cause_precedence import CausePrecedence, precedence
from gpuwatch.diagnose.incidents.causes.exclusions import listed, possible_causes
from gpuwatch.diagnose.incidents.causes.explaining_error import (
    LOGGED_BYTES,
    MILD_ENDS,
    SAME_MOMENT_S,
    explained,
    first_report,
    is_above,
    is_above_line,
    may_be_of_another,
)
from gpuwatch.diagnose.incidents.causes.first_cause import (
    absent_rank_failure,
    first_cause,
    listed_culprit,
    slack,
)
from gpuwatch.diagnose.incidents.causes.unstarted_members import unstarted_member
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    NAMES_CULPRIT,
    PEER_CONNECTION_ERRORS,
    TAKES_MEMBERS,
    UNEXPLAINED,
    explains,
    of_kinds,
)
from gpuwatch.diagnose.model.incident import UNKNOWN
from gpuwatch.diagnose.model.timing import bounds, sure
from gpuwatch.diagnose.sources.absent_ranks import absent_ranks

PAIRWISE = of_kinds("pairwise_mismatch")
SAID_BYTES = 2048
"""Largest distance (bytes) above a program's last line at which it states why it ends."""


@dataclass
class RootCause:
    """The alert that is the root cause (or None), the culprits that its line lists, doubts and rivals."""

    cause: Alert | None = None
    named: tuple[int, ...] = ()
    """Culprits that the cause's line lists."""
    doubts: list[str] = field(default_factory=list)
    rivals: tuple[Alert, ...] = ()
    """Other alerts that may have been first."""


def root_cause_of(alerts: Sequence[Alert]) -> RootCause:
    """Return the root cause among the alerts of one group; its `cause` is None if no alert can be one."""
    limits = bounds(alerts)
    candidates = possible_causes(alerts, limits)
    timed = [alert for alert in candidates if sure(limits[alert.id])]
    untimed = [alert for alert in candidates if not sure(limits[alert.id])]
    best = first_cause(timed, alerts)
    if best is not None:
        untimed = [alert for alert in untimed if not _is_later(alert, best, limits)]
    found = RootCause()
    if untimed:
        ended = best.rank if best is not None and best in EXITS else None
        strongest = min(
            untimed,
            key=lambda alert: (
                precedence(alert),
                ended is not None and alert.rank != ended,
                limits[alert.id][1],
                alert.position,
            ),
        )
        if strongest in NAMES_CULPRIT and listed(strongest):
            strongest = listed_culprit(strongest, sorted(untimed, key=lambda alert: alert.position))
        else:
            strongest = absent_rank_failure(strongest, candidates)
        if best is not None and _is_its_end(best, strongest, alerts):
            best = strongest
        elif best is None or precedence(strongest) < precedence(best):
            best = strongest
            found.doubts.append("the line that names the cause has no timestamp")
        elif precedence(strongest) == precedence(best) and strongest.rank != best.rank:
            found.doubts.append(f"{strongest.title!r} has no timestamp and may be older")
    stronger = best is not None and precedence(best) < CausePrecedence.LOST_PEER
    lost_peer = None if stronger else _lost_peer_report(alerts)
    if lost_peer is not None:
        return RootCause(lost_peer, listed(lost_peer))
    own = _said_above(best, alerts)
    if best is None or best.code == UNKNOWN or own is not None:
        found.cause = own or last_resort(alerts) or best
        if found.cause is not best:
            found.doubts.append("no rule knows this error")
        return found
    best = first_report(best, candidates)
    found.rivals = _rivals(best, timed)
    cause = unstarted_member(best, alerts) or explained(best, alerts)
    found.cause = cause
    found.named = next(filter(None, (row.ranks(cause, best, alerts) for row in CULPRIT_ROWS)), ())
    rival = next((each for each in found.rivals if not explains(cause, each)), None)
    if rival is not None:
        found.doubts.append(f"{rival.title!r} came within {SAME_MOMENT_S:g} s of it elsewhere")
    if cause.error_s > 1.0 or any(each.error_s > 1.0 for each in found.rivals):
        found.doubts.append("the nodes' clocks cannot be compared to the second")
    return found


def _said_above(ended: Alert | None, alerts: Sequence[Alert]) -> Alert | None:
    """Return the program's uppermost error line shortly above the report of an end with an error code.

    It is a stated loss, or an error that no rule knows, at most SAID_BYTES above. None: there is none.
    """
    if ended is None or ended not in MILD_ENDS or ended not in EXITS:
        return None
    stated = [
        alert
        for alert in alerts
        if (alert in UNEXPLAINED or SIGN in alert.fields)
        and alert.severity != "info"
        and alert.rank == ended.rank
        and all(own_level(proof.text) in GRAVE for proof in alert.proof)
        and is_above_line(alert, ended, SAID_BYTES)
    ]
    return min(stated, key=lambda alert: alert.position, default=None)


def _lost_peer_report(alerts: Sequence[Alert]) -> Alert | None:
    """Return the first alert of a survivor that names the ranks it lost, or None."""
    named = (alert for alert in alerts if alert in PEER_CONNECTION_ERRORS and absent_ranks(alert))
    return min(named, key=lambda alert: (alert.first, alert.id), default=None)


def _minority_ranks(cause: Alert, _best: Alert, alerts: Sequence[Alert]) -> tuple[int, ...]:
    """Return the rank that most reports of a mismatch name, in a collective checked in pairs.

    Empty: a tie, or fewer than two reports name one.
    """
    if cause not in PAIRWISE:
        return ()
    named = Counter(each.fields.get("peer_rank") for each in alerts if each.code == cause.code)
    (rank, votes), *others = named.most_common(2)
    return (
        (rank,) if isinstance(rank, int) and votes > 1 and all(votes > least for _, least in others) else ()
    )


def _ranks_behind(cause: Alert, _best: Alert, alerts: Sequence[Alert]) -> tuple[int, ...]:
    """Return the ranks with the lowest count of operations in the lines of the cause's class.

    () if all have it.
    """
    counts = {
        each.fields.get("peer_rank"): each.fields.get("lag_op_count")
        for each in alerts
        if each.code == cause.code and "lag_op_count" in each.fields
    }
    known = {
        rank: count for rank, count in counts.items() if isinstance(rank, int) and isinstance(count, int)
    }
    behind = sorted(rank for rank, count in known.items() if count == min(known.values()))
    return tuple(behind) if len(behind) < len(known) else ()


class NamedRanks(Struct, frozen=True):
    """A row of `CULPRIT_ROWS`: a way in which the lines of a group name the culprits."""

    name: str
    ranks: Callable[[Alert, Alert, Sequence[Alert]], tuple[int, ...]]
    """Returns the ranks from the cause, the alert that led to it, and all alerts; empty: none."""


CULPRIT_ROWS = (
    NamedRanks("ranks that the cause lists", lambda cause, _best, _alerts: listed(cause)),
    NamedRanks(
        "members that were taken, as the others list them",
        lambda cause, best, _alerts: listed(best) if cause in TAKES_MEMBERS else (),
    ),
    NamedRanks("rank that most reports of a mismatch name", _minority_ranks),
    NamedRanks("ranks with the fewest operations", _ranks_behind),
)
"""The first row that names ranks counts."""


def _is_its_end(ended: Alert, cause: Alert, alerts: Sequence[Alert]) -> bool:
    """Return True if `ended` is the end of the rank that logged an undated `cause`, or is below it in a log.

    A launcher that lists several ranks at one time does not know which was first.
    """
    own = ended in EXITS and ended.rank == cause.rank is not None
    if ended in MILD_ENDS and ended.rank is None and is_above(cause, ended, LOGGED_BYTES):
        return True
    return own or (may_be_of_another(ended, alerts) and is_above(cause, ended))


def _is_later(alert: Alert, best: Alert, limits: Mapping[str, tuple[float, float]]) -> bool:
    """Return True if a line without a time was written after a dated cause, by the bounds of its time."""
    return limits[alert.id][0] > best.first + slack(best, alert)


def _rivals(best: Alert, candidates: Sequence[Alert]) -> tuple[Alert, ...]:
    """Return the alerts at least as strong as the best one, of another class and place, at the same time.

    Alerts that explain the best one, and exits without a rank, are left out.
    """
    return tuple(
        alert
        for alert in candidates
        if alert.id != best.id
        and precedence(alert) <= precedence(best)
        and (alert.node != best.node or None is not alert.rank != best.rank)
        and alert.code != best.code
        and not explains(alert, best)
        and not (alert.rank is None and alert in EXITS)  # it may well be the end of `best` itself
        and abs(alert.first - best.first) <= SAME_MOMENT_S + alert.error_s + best.error_s
    )
