"""Choose the first cause of the dated candidates: by the rows of `ORDER`, then of `REPLACEMENTS`. Pure.

Example: ranks 0 and 2 end with exit code 1 in one second, in which the log of rank 2 has a KeyError. The rows
of `ORDER` above that of exceptions are equal, and by this one rank 2 comes first. If a launcher's line lists
rank 3 as lost, the first row of `REPLACEMENTS` leads to the failure of rank 3 instead.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TypeAlias

from msgspec import Struct

from gpuwatch.agent.logs.lines.levels import level
from gpuwatch.diagnose.incidents.causes.cause_precedence import CausePrecedence, layer, precedence
from gpuwatch.diagnose.incidents.causes.exclusions import ALIVE_S, listed
from gpuwatch.diagnose.incidents.causes.explaining_error import KERNEL_S, MILD_ENDS, SAME_MOMENT_S
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    GENERIC_EXCEPTIONS,
    LAUNCHER,
    NAMES_CULPRIT,
    PEER_CONNECTION_ERRORS,
    RENDEZVOUS_TIMEOUTS,
    VALUES,
    end_weight,
    explains,
)

PEERS_SOONER_S = 30.0
"""Seconds by which peers report a dead process before its launcher does; failure tables come last."""
Raised: TypeAlias = Container[int | None]
"""The ranks that logged an exception of their own."""


class Preference(Struct, frozen=True):
    """A row of `ORDER`: of two candidates, the one with the smaller value comes first."""

    name: str
    value: Callable[[Alert, Raised], float | tuple[object, ...]]


class Replacement(Struct, frozen=True):
    """A row of `REPLACEMENTS`: another alert that is the cause in place of the first one."""

    name: str
    find: Callable[[Alert, Sequence[Alert], Sequence[Alert]], Alert | None]
    """Returns it from the first alert, the candidates in their order, and all alerts; None: there is none."""
    ends: bool = False
    """True if no later row applies to what it finds."""


def first_cause(candidates: Sequence[Alert], alerts: Sequence[Alert]) -> Alert | None:
    """Return the first candidate, or what replaces it; None if there is no candidate.

    `alerts`: all alerts of the group.
    """
    raised = {alert.rank for alert in alerts if alert in GENERIC_EXCEPTIONS}
    ordered = sorted(candidates, key=lambda alert: [row.value(alert, raised) for row in ORDER])
    best = _soonest(ordered)
    for row in REPLACEMENTS:
        found = None if best is None else row.find(best, ordered, alerts)
        best = found or best
        if found is not None and row.ends:
            break
    return best


def _soonest(ordered: Sequence[Alert]) -> Alert | None:
    """Return the first alert, or a stronger one that follows too soon for a sure order."""
    best: Alert | None = None
    for alert in ordered:
        stronger = best is not None and precedence(alert) < precedence(best)
        if best is None or (stronger and alert.first - best.first <= slack(best, alert)):
            best = alert
    return best


def _when(alert: Alert) -> float:
    """Return when the alert did harm (unix seconds): at its first line, or at the last of a recurring one."""
    passes = not alert.kernel and alert not in VALUES
    repeated = passes and alert.rank is not None and alert.last - alert.first > ALIVE_S
    return alert.last if repeated else alert.first


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


def listed_culprit(explicit: Alert, ordered: Sequence[Alert]) -> Alert:
    """Return the failure of a rank that `explicit` lists as absent, else `explicit`.

    A rendezvous timeout is first replaced by the failure of a rank that never came (`absent_rank_failure`).
    The failure is older, or a crash that the launcher reports at most PEERS_SOONER_S later. If `explicit`
    lists no rank, any stronger error that is older counts. `ordered`: the candidates by time.
    """
    named = set(listed(explicit))
    explicit = absent_rank_failure(explicit, ordered)
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


def absent_rank_failure(waited: Alert, candidates: Sequence[Alert]) -> Alert:
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


def slack(best: Alert, later: Alert) -> float:
    """Return by how many seconds `later` may be reported after `best` and still be the earlier event."""
    error = best.error_s + later.error_s
    if later in LAUNCHER:
        return PEERS_SOONER_S + error
    if best in PEER_CONNECTION_ERRORS or later.kernel:
        return KERNEL_S / 3 + error
    return SAME_MOMENT_S + error


def _listed(best: Alert, ordered: Sequence[Alert], alerts: Sequence[Alert]) -> Alert | None:
    del best, alerts
    lists = [alert for alert in ordered if alert in NAMES_CULPRIT and alert.role == "root"]
    return listed_culprit(lists[0], ordered) if lists else None


def _grave(best: Alert, ordered: Sequence[Alert], alerts: Sequence[Alert]) -> Alert | None:
    del alerts
    if not _is_mild(best):
        return None
    same = (each for each in ordered if each.code == best.code and not _is_mild(each))
    return next((each for each in same if each.first - best.first <= SAME_MOMENT_S), None)


def _warning(best: Alert, ordered: Sequence[Alert], alerts: Sequence[Alert]) -> Alert | None:
    del ordered
    if precedence(best) < CausePrecedence.LOST_PEER:
        return None
    warned = (alert for alert in alerts if alert.severity == "warning" and alert.role == "root")
    return next((alert for alert in warned if explains(alert, best)), None)


ORDER = (
    Preference("time of the harm", lambda alert, _: _when(alert)),
    Preference("stronger kind of cause", lambda alert, _: precedence(alert)),
    Preference("end of a rank that logged an exception", _is_mute),
    Preference("first entry of a failure table", lambda alert, _: _is_listed_later(alert)),
    Preference("device before kernel before program", lambda alert, _: layer(alert)),
    Preference("place in the logs", lambda alert, _: alert.position),
)
"""What decides between two candidates: the first row whose values differ."""
REPLACEMENTS = (
    Replacement("failure of a rank that a line lists", _listed, ends=True),
    Replacement("the same failure, logged as an error", _grave),
    Replacement("warning of a class that explains a lost peer", _warning),
)
"""What replaces the first candidate, in order."""
