"""The rank of a cause whose own line names none: what the other lines of the job say. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.diagnose.alert import Alert
from gpuwatch.diagnose.classes import EXITS, PEER_TROUBLE, SCHEDULER, TIMEOUTS
from gpuwatch.diagnose.suspects import Hang
from gpuwatch.diagnose.whereabouts import Whereabouts

EXIT_S = 600.0
"""The end of a rank that comes later than this after a cause (seconds) is not its consequence."""
LEAST_FOLLOWERS = 3
"""With so many ranks that timed out the one that did not is no coincidence."""
TERMINATED = 3
"""The weight in `EXITS` of ranks that the launcher ended."""


def rank_of_cause(
    cause: Alert, stuck: Hang | None, alerts: Sequence[Alert], where: Whereabouts, job: str | None
) -> tuple[int, str] | None:
    """Give the rank of a cause without one, and why; None where the lines do not tell, or tell of several."""
    if cause.rank is not None or cause.code in SCHEDULER or cause.code in PEER_TROUBLE | TIMEOUTS:
        return None
    ended = first_to_end(cause, alerts)
    if ended is not None and _may_be_on(ended, cause, alerts, where, job):
        return ended, "the only rank that its launcher says ended by itself"
    if stuck is None or len(stuck.suspects) != 1 or cause.node is not None:
        return None
    if len(stuck.odd) == 1:
        return stuck.odd[0], "the only rank that was in another operation"
    if len(stuck.victims) >= LEAST_FOLLOWERS and len(stuck.victims) + 1 == len(stuck.world):
        return stuck.suspects[0], "the only rank that did not time out"
    return None


def first_to_end(cause: Alert, alerts: Sequence[Alert]) -> int | None:
    """Give the rank that ended by itself, where only one did; one that gave up waiting does not count."""
    waited = {alert.rank for alert in alerts if alert.code in TIMEOUTS}
    ended: dict[int, set[int]] = {}
    for alert in alerts:
        weight = EXITS.get(alert.code, TERMINATED)
        near = not (alert.timed and cause.timed) or -EXIT_S <= cause.first - alert.first <= EXIT_S
        if alert.rank is not None and weight < TERMINATED and near and alert.rank not in waited:
            ended.setdefault(weight, set()).add(alert.rank)
    first = ended[min(ended)] if ended else set()
    return next(iter(first)) if len(first) == 1 else None


def _may_be_on(rank: int, cause: Alert, alerts: Sequence[Alert], where: Whereabouts, job: str | None) -> bool:
    """Whether a rank may run where a cause happened, by its place and by the lines about it."""
    place = where.of(rank, job)
    nodes = {alert.node for alert in alerts if alert.rank == rank and alert.code in EXITS}
    nodes |= {place.node or None} if place is not None else set()
    return cause.node is None or nodes <= {None, cause.node}
