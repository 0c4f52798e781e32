"""The facts of an incident's headline, and the ranks whose failures only followed from the cause."""

from __future__ import annotations

from msgspec import Struct

from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.incidents.culprits.culprit_rank import killed_together
from gpuwatch.diagnose.incidents.culprits.suspects import MAX_NAMED_SUSPECTS, Hang
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import LAUNCHER, NODE_FAILURES
from gpuwatch.diagnose.model.last_activity import Activity
from gpuwatch.diagnose.model.rank_index import RankIndex


class HeadlineFacts(Struct, frozen=True):
    """The input of `sentence`: cause, hang, alerts, and the culprit's rank, node and GPU."""

    cause: Alert | None
    rank: int | None
    node: str | None
    gpu: int | None
    hang: Hang | None
    alerts: tuple[Alert, ...]
    named: tuple[int, ...] = ()
    votes: int = 0
    job: str | None = None
    did: Activity | None = None
    """The last activity that the suspected rank logged."""


def followers(reported: HeadlineFacts, where: RankIndex) -> int:
    """Return the number of ranks with errors that are no culprits.

    Of nodes if no alert is of a known rank.
    """
    ranks = following(reported, where)
    if ranks or any(alert.rank is not None for alert in reported.alerts):
        return len(ranks)
    return len({alert.node for alert in reported.alerts if alert.node is not None} - {reported.node})


def following(reported: HeadlineFacts, where: RankIndex) -> set[int]:
    """Return the ranks with errors that are no culprits: their failures only followed from the cause."""
    culprits = set(reported.named) | ({reported.rank} if reported.rank is not None else set())
    cause = reported.cause
    culprits |= (
        set() if cause is None or reported.rank is not None else killed_together(cause, reported.alerts)
    )
    if reported.rank is None and reported.node is not None:
        gone = cause is not None and (
            cause.code == "node_lost" or (cause in NODE_FAILURES and cause in LAUNCHER)
        )
        culprits |= (
            {each.rank for each in where.on(reported.node, reported.job)} if gone or cause is None else set()
        )
    if cause is None and reported.hang is not None:
        culprits |= set(reported.hang.suspects[:MAX_NAMED_SUSPECTS])
    suffering = {
        alert.rank
        for alert in reported.alerts
        if alert.rank is not None
        and alert.role != "hint"
        and alert is not cause
        # a job that falls silent by itself: what its ranks stated while they still stepped does not follow
        and (cause is None or cause.code != HANG or alert.last >= cause.first)
    }
    return suffering - culprits
