"""Finds which rank wrote a lost connection that names none, from the ends of its node's ranks. Pure.

Example: two ranks write to their launcher's log. Rank 1 is ended by a signal, rank 0 logs `Connection
closed by peer` and ends with exit code 1. The line names no rank, but rank 0 is the only one on the node
that raised: the line is rank 0's, so its end is a consequence, and `signalled_first` returns the end of
rank 1 as a possible cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from gpuwatch.diagnose.error_outcome.observed_end import is_observed
from gpuwatch.diagnose.incidents.causes.explaining_error import MILD_ENDS, is_own_error
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    EXIT_CODES,
    GENERIC_EXCEPTIONS,
    PEER_CONNECTION_ERRORS,
    SCHEDULER,
    STOPS_RANKS,
    TERMINATED,
    TIMEOUTS,
)
from gpuwatch.diagnose.model.rank_index import RankIndex

ENDED_BY_LAUNCHER = SCHEDULER | STOPS_RANKS
"""Lines of a launcher or scheduler that sends signals to ranks."""
RAISED_STATUS = 1
"""The exit code of Python after an exception."""


def with_lost_peers_placed(
    believed: Sequence[Alert], alerts: Sequence[Alert], where: RankIndex
) -> list[Alert]:
    """Return the believed alerts; lost connections without a rank get the ranks that must have logged them.

    A node's ranks that ended with exit code 1 and logged nothing under their own number wrote the lines
    without a rank on that node. If these lines state a cause too, the rank whose end was observed first
    wrote it: the others lost their connection to that rank. If the lines name a peer on another node, all of
    the node's ranks lost it.

    Args:
        believed: The alerts that no more trusted source refutes; the cause is one of them.
        alerts: All alerts of the group, with the observed ends, whose order is known.
        where: The nodes by their addresses.
    """
    placed = list(believed)
    nodes = {alert.node for alert in believed if alert in PEER_CONNECTION_ERRORS and alert.rank is None}
    for node in nodes - {None}:
        here = [alert for alert in believed if alert.node == node]
        lost = [alert for alert in here if alert in PEER_CONNECTION_ERRORS and alert.rank is None]
        peers = {where.named(alert.fields["peer"]) for alert in lost if "peer" in alert.fields}
        lines = len(here) if peers - {None, node} else sum(alert.count for alert in lost)
        ranks = _that_lost_a_peer(here, lines, _observed(alerts))
        if ranks:
            placed = [alert for alert in placed if alert not in lost]
            placed += [_of_rank(lost[min(number, len(lost) - 1)], rank) for number, rank in enumerate(ranks)]
    return placed


def signalled_first(believed: Sequence[Alert], alerts: Sequence[Alert]) -> list[Alert]:
    """Return the believed alerts; a rank's end by SIGTERM becomes a possible cause if nothing else can be.

    That is the case if exactly one rank ended so, no launcher or scheduler reports that it sent the
    signal, and all others only lost their connections, later.
    """
    lost = {alert.rank for alert in believed if alert in PEER_CONNECTION_ERRORS} - {None}
    ends = [alert for alert in believed if alert in TERMINATED and alert.rank is not None]
    ranks = {alert.rank for alert in ends}
    others = [alert for alert in believed if alert not in PEER_CONNECTION_ERRORS and alert not in ends]
    if len(ranks) != 1 or not lost or ranks & lost or any(a in ENDED_BY_LAUNCHER for a in alerts):
        return list(believed)
    if any(_is_grave(each) and not (each.rank in lost and each in MILD_ENDS) for each in others):
        return list(believed)
    if not _came_first(ranks, lost, _observed(alerts), ends):
        return list(believed)
    return [
        structs.replace(alert, role="first", severity="error") if alert in ends else alert
        for alert in believed
    ]


def _came_first(
    ranks: set[int | None], lost: set[int | None], observed: Mapping[int, float], ends: Sequence[Alert]
) -> bool:
    """Return True if the ends of `ranks` were observed before those of the others, or torchrun lists them.

    Torchrun logs each signal that it sends: another signal in its table came from elsewhere.
    """
    first = [at for rank, at in observed.items() if rank in ranks]
    later = [at for rank, at in observed.items() if rank in lost]
    if first and later:
        return min(first) <= min(later)
    return any("table_entry" in alert.fields for alert in ends)


def _that_lost_a_peer(here: Sequence[Alert], lines: int, observed: Mapping[int, float]) -> list[int]:
    """Return the ranks of a node that wrote its lines about lost connections; empty: unknown."""
    spoke = {alert.rank for alert in here if _is_own(alert)}
    ended = {
        alert.rank
        for alert in here
        if alert in EXIT_CODES
        and alert.rank is not None
        and alert.rank not in spoke
        and alert.fields.get("exitcode", RAISED_STATUS) == RAISED_STATUS
    }
    causes = {alert.text for alert in here if alert.rank is None and _states_cause(alert)}
    if not causes and len(ended) <= lines:
        return sorted(ended)
    if not ended or len(causes) > 1 or len(ended) > lines + 1 or not ended <= observed.keys():
        return []
    first = min(ended, key=lambda rank: observed[rank])
    if any(observed[rank] == observed[first] for rank in ended - {first}):
        return []
    return sorted(ended - {first})


def _is_own(alert: Alert) -> bool:
    """Return True if a rank logged an error under its own number."""
    return alert.rank is not None and (
        alert in PEER_CONNECTION_ERRORS | TIMEOUTS or alert in GENERIC_EXCEPTIONS or is_own_error(alert)
    )


def _states_cause(alert: Alert) -> bool:
    return not alert.kernel and (alert in GENERIC_EXCEPTIONS or is_own_error(alert))


def _is_grave(alert: Alert) -> bool:
    return alert.role in ("root", "first") and alert.severity in ("error", "critical")


def _observed(alerts: Sequence[Alert]) -> dict[int, float]:
    """Return rank -> when its agent saw its process end (unix seconds)."""
    return {alert.rank: alert.first for alert in alerts if is_observed(alert) and alert.rank is not None}


def _of_rank(alert: Alert, rank: int) -> Alert:
    return structs.replace(alert, id=f"{alert.id}~{rank}", rank=rank, rank_from=None)
