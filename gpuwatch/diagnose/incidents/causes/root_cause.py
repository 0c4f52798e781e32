"""Select the root cause of a group of alerts.

Example: rank 5's ECC error at 10:00:00, rank 2's NCCL watchdog timeout at 10:10:01, and the launcher's report
at 10:10:03 that rank 2 ended. `exclusions` leaves only the ECC error, as both others are consequences, and
`root_cause_of` returns it without rivals. An equally strong error of rank 6 within `SAME_MOMENT_S` would be a
rival and add a doubt, which lowers the confidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from gpuwatch.agent.logs.lines.levels import GRAVE, level, own_level
from gpuwatch.diagnose.alerts.deduplication.unexplained import last_resort
from gpuwatch.diagnose.error_outcome.refutation import SIGN
from gpuwatch.diagnose.incidents.causes.cause_precedence import CausePrecedence, layer, precedence
from gpuwatch.diagnose.incidents.causes.exclusions import ALIVE_S, listed, possible_causes
from gpuwatch.diagnose.incidents.causes.explaining_error import (
    KERNEL_S,
    LOGGED_BYTES,
    MILD_ENDS,
    SAME_MOMENT_S,
    explained,
    first_report,
    is_above,
    is_above_line,
    may_be_of_another,
)
from gpuwatch.diagnose.incidents.causes.unstarted_members import unstarted_member
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    GENERIC_EXCEPTIONS,
    LAUNCHER,
    NAMES_CULPRIT,
    PEER_CONNECTION_ERRORS,
    RENDEZVOUS_TIMEOUTS,
    TAKES_MEMBERS,
    UNEXPLAINED,
    VALUES,
    end_weight,
    explains,
    of_kinds,
)
from gpuwatch.diagnose.model.incident import UNKNOWN
from gpuwatch.diagnose.model.timing import bounds, sure
from gpuwatch.diagnose.sources.absent_ranks import absent_ranks

PAIRWISE = of_kinds("pairwise_mismatch")
SAID_BYTES = 2048
"""Largest distance (bytes) above a program's last line at which it states why it ends."""
PEERS_SOONER_S = 30.0
"""Seconds by which peers report a dead process before its launcher does; failure tables come last."""


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
    best = _first(timed, alerts)
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
            strongest = _listed_culprit(strongest, sorted(untimed, key=lambda alert: alert.position))
        else:
            strongest = _absent_rank_failure(strongest, candidates)
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
    taken = listed(best) if cause in TAKES_MEMBERS else ()
    found.cause, found.named = cause, listed(cause) or taken or _minority_ranks(cause, alerts)
    found.named = found.named or _ranks_behind(cause, alerts)
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


def _minority_ranks(cause: Alert, alerts: Sequence[Alert]) -> tuple[int, ...]:
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


def _ranks_behind(cause: Alert, alerts: Sequence[Alert]) -> tuple[int, ...]:
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


def _when(alert: Alert) -> float:
    """Return when the alert did harm (unix seconds): at its first line, or at the last of a recurring one."""
    passes = not alert.kernel and alert not in VALUES
    repeated = passes and alert.rank is not None and alert.last - alert.first > ALIVE_S
    return alert.last if repeated else alert.first


def _first(candidates: Sequence[Alert], alerts: Sequence[Alert]) -> Alert | None:
    """Return the earliest alert, or a stronger one that follows too soon for a sure order.

    None if none is given. A line that lists the culprits, and a warning whose class explains a lost peer, are
    preferred.
    """
    raised = {alert.rank for alert in alerts if alert in GENERIC_EXCEPTIONS}
    ordered = sorted(
        candidates,
        key=lambda alert: (
            _when(alert),
            precedence(alert),
            _is_mute(alert, raised),
            _is_listed_later(alert),
            layer(alert),
            alert.position,
        ),
    )
    lists = [alert for alert in ordered if alert in NAMES_CULPRIT and alert.role == "root"]
    if lists:
        return _listed_culprit(lists[0], ordered)
    best: Alert | None = None
    for alert in ordered:
        stronger = best is not None and precedence(alert) < precedence(best)
        if best is None or (stronger and alert.first - best.first <= _slack(best, alert)):
            best = alert
    if best is not None and _is_mild(best):
        same = [each for each in ordered if each.code == best.code and not _is_mild(each)]
        best = next((each for each in same if each.first - best.first <= SAME_MOMENT_S), best)
    if best is not None and precedence(best) >= CausePrecedence.LOST_PEER:
        warned = [alert for alert in alerts if alert.severity == "warning" and alert.role == "root"]
        return next((alert for alert in warned if explains(alert, best)), best)
    return best


def _is_its_end(ended: Alert, cause: Alert, alerts: Sequence[Alert]) -> bool:
    """Return True if `ended` is the end of the rank that logged an undated `cause`, or is below it in a log.

    A launcher that lists several ranks at one time does not know which was first.
    """
    own = ended in EXITS and ended.rank == cause.rank is not None
    if ended in MILD_ENDS and ended.rank is None and is_above(cause, ended, LOGGED_BYTES):
        return True
    return own or (may_be_of_another(ended, alerts) and is_above(cause, ended))


def _is_mute(alert: Alert, raised: Container[int | None]) -> bool:
    """Return True if the alert is the end of a rank that logged no exception of its own.

    A simultaneous end with an exception is preferred as the cause.
    """
    return alert in EXITS and alert.rank not in raised


def _is_listed_later(alert: Alert) -> bool:
    """Return True for an entry of torch's failure table that is not under its heading "Root Cause"."""
    return bool(alert.fields.get("table_entry"))


def _is_mild(alert: Alert) -> bool:
    """Return True if all lines of an alert are logged as warnings.

    Another rank may have ended for the same reason.
    """
    return bool(alert.proof) and all(level(proof.text) == "warning" for proof in alert.proof)


def _listed_culprit(explicit: Alert, ordered: Sequence[Alert]) -> Alert:
    """Return the failure of a rank that `explicit` lists as absent, else `explicit`.

    The failure is older, or a crash that the launcher reports at most PEERS_SOONER_S later. If `explicit`
    lists no rank, any stronger error that is older counts. `ordered`: the candidates by time.
    """
    named = set(listed(explicit))
    explicit = _absent_rank_failure(explicit, ordered)
    for alert in ordered:
        crashed = alert in LAUNCHER and alert not in MILD_ENDS and end_weight(alert, -1) == 0
        if crashed and alert.rank in named and alert.first <= explicit.first + PEERS_SOONER_S:
            return alert
        kind = precedence(alert)
        if alert.first > explicit.first or alert in NAMES_CULPRIT or kind >= CausePrecedence.LOST_PEER:
            continue
        if named and alert.rank in named:
            return alert
        older = alert.first < explicit.first - SAME_MOMENT_S
        if not named and older and kind <= CausePrecedence.PROCESS_END:
            return alert
    return explicit


def _absent_rank_failure(waited: Alert, candidates: Sequence[Alert]) -> Alert:
    """Return the failure of a rank for which others waited in vain in a rendezvous; else `waited` itself."""
    if waited not in RENDEZVOUS_TIMEOUTS:
        return waited
    came = {(alert.node, alert.rank) for alert in candidates if alert.code == waited.code}
    away = [
        alert
        for alert in candidates
        if alert not in NAMES_CULPRIT
        and alert not in RENDEZVOUS_TIMEOUTS
        and precedence(alert) <= CausePrecedence.FIRST_SYMPTOM
        and (alert.node, alert.rank) not in came
        and alert.first <= waited.first + SAME_MOMENT_S
    ]
    return min(away, key=lambda alert: (precedence(alert), alert.first, alert.position), default=waited)


def _slack(best: Alert, later: Alert) -> float:
    """Return by how many seconds `later` may be reported after `best` and still be the earlier event."""
    error = best.error_s + later.error_s
    if later in LAUNCHER:
        return PEERS_SOONER_S + error
    if best in PEER_CONNECTION_ERRORS or later.kernel:
        return KERNEL_S / 3 + error
    return SAME_MOMENT_S + error


def _is_later(alert: Alert, best: Alert, limits: Mapping[str, tuple[float, float]]) -> bool:
    """Return True if a line without a time was written after a dated cause, by the bounds of its time."""
    return limits[alert.id][0] > best.first + _slack(best, alert)


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
