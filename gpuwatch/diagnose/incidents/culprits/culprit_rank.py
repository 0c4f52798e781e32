"""Find the rank of a cause whose own line names none, from the job's other lines. Pure.

Example: the kernel logs `Out of memory: Killed process 4711 (python)`, without a rank. The launcher then
reports that rank 2 ended by signal 9, and ranks 0, 1 and 3 lose their peer: `rank_of_cause` returns rank 2,
"the only rank that ended by itself, according to its launcher".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuwatch.diagnose.error_outcome.observed_end import is_observed
from gpuwatch.diagnose.incidents.culprits.suspects import Hang, is_milder
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    FILE_SYSTEMS,
    GENERIC_EXCEPTIONS,
    OF_NO_RANK,
    PEER_CONNECTION_ERRORS,
    STOPS_RANKS,
    TIMEOUTS,
    end_weight,
    explains,
    of_kinds,
)
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.sources.absent_ranks import absent_in

EXIT_S = 600.0
"""Seconds after a cause within which a rank's end may be its consequence."""
SUFFERS_S = 120.0
"""Seconds after a fault within which a rank's error may be its consequence."""
SAME_MOMENT_S = 2.0
KILLS = of_kinds("killed")
MIN_FOLLOWERS = 3
"""Least number of timed-out ranks for which the only other rank is significant."""
PROCESS = re.compile(r"(?i)\b(?:pid|process)[ =:]{1,2}(\d{2,10})\b")
MAX_READ_CHARACTERS = 2000
"""Most characters of a line that are searched."""
VICTIMS = TIMEOUTS | PEER_CONNECTION_ERRORS
"""Classes that ranks log which waited for another rank or lost it."""
TOGETHER_S = 0.3
"""Seconds between two kills within which both have one cause outside of the job.

Their order is no evidence.
"""
TERMINATED_WEIGHT = 3
"""The `end_weight` of ranks that the launcher terminated."""


def rank_of_cause(
    cause: Alert, stuck: Hang | None, alerts: Sequence[Alert], where: RankIndex, job: str | None
) -> tuple[int, str] | None:
    """Return the rank of a cause without one, and the reason as text.

    None if the lines give no rank or several, or if the cause has a rank or is a line of the scheduler or of
    a rank that only waited.
    """
    if cause.rank is not None or cause in OF_NO_RANK or cause in VICTIMS:
        return None
    for rank, because in (
        (owner_of_process(cause, alerts), "the rank in whose log the killed process is named"),
        (first_to_end(cause, alerts), "the only rank that ended by itself, according to its launcher"),
    ):
        if rank is not None and _may_be_on(rank, cause, alerts, where, job):
            return rank, because
    suffered = first_to_suffer(cause, alerts, where, job)
    if suffered is not None:
        return suffered
    lost = _lost(cause, alerts, where, job)
    if lost is not None:
        return lost
    if stuck is None or len(stuck.suspects) != 1 or cause.node is not None:
        return None
    if len(stuck.odd) == 1:
        return stuck.odd[0], "the only rank that was in another operation"
    if len(stuck.victims) >= MIN_FOLLOWERS and len(stuck.victims) + 1 == len(stuck.world):
        return stuck.suspects[0], "the only rank that did not time out"
    return None


def _lost(cause: Alert, alerts: Sequence[Alert], where: RankIndex, job: str | None) -> tuple[int, str] | None:
    """Return the rank that others report as lost, else the only one of the job that lost no peer; and why.

    None: neither is clear.
    """
    later = [alert for alert in alerts if alert in VICTIMS and alert.first >= cause.first - SAME_MOMENT_S]
    named = {rank for rank in absent_in(later) if where.may_be_rank(rank, job)}
    rank = next(iter(named), None)
    if len(named) == 1 and rank is not None and _may_be_on(rank, cause, alerts, where, job):
        return rank, "the rank that the others report as lost"
    followers = {alert.rank for alert in later} - {None}
    seen = {rank for rank in followers if rank is not None}
    world = where.world(job) | set(range(max(seen, default=-1) + 1))
    away = world - followers
    rank = next(iter(away), None)
    if rank is None or len(away) != 1 or len(followers) < MIN_FOLLOWERS:
        return None
    if not _may_be_on(rank, cause, alerts, where, job):
        return None
    return rank, "the only rank that did not lose its connection to another"


def first_to_end(cause: Alert, alerts: Sequence[Alert]) -> int | None:
    """Return the only rank whose kind of end follows least likely from another failure; else None.

    Ends by SIGTERM and ends over EXIT_S from the cause do not count, nor those of ranks that timed out or
    lost a peer, nor warnings beside a graver cause.
    """
    waited = {alert.rank for alert in alerts if alert in VICTIMS}
    ended: dict[int, set[int]] = {}
    for alert in alerts:
        weight = end_weight(alert, TERMINATED_WEIGHT)
        near = not (alert.timed and cause.timed) or -EXIT_S <= cause.first - alert.first <= EXIT_S
        ended_alone = alert.rank not in waited and not is_milder(alert, cause)
        if alert.rank is not None and weight < TERMINATED_WEIGHT and near and ended_alone:
            ended.setdefault(weight, set()).add(alert.rank)
    first = ended[min(ended)] if ended else set()
    return next(iter(first)) if len(first) == 1 else None


def killed_together(cause: Alert, alerts: Sequence[Alert]) -> set[int]:
    """Return the ranks that were killed at the same moment, including that of the cause; empty: only one was.

    Only for ends without a launcher's table: torchrun lists the first failure, and kills the others.
    """
    if cause not in KILLS or cause.rank is None:
        return set()
    if any("table_entry" in each.fields or each in STOPS_RANKS for each in alerts):
        return set()
    ranks = {
        each.rank
        for each in alerts
        if each.code == cause.code and each.rank is not None and abs(each.first - cause.first) <= TOGETHER_S
    }
    return ranks if len(ranks) > 1 else set()


def owner_of_process(cause: Alert, alerts: Sequence[Alert]) -> int | None:
    """Return the only rank whose own error names the process that the kernel killed, such as its data loader.

    None: no rank or several ranks do, or the kernel did not report the cause.
    """
    if not cause.kernel:
        return None
    ended = {pid for proof in cause.proof for line in (proof.text, *proof.lines) for pid in pids_in(line)}
    ranks = {
        alert.rank
        for alert in alerts
        if alert.rank is not None
        and not alert.kernel
        and alert.proof
        and ended & pids_in(alert.proof[0].text)
    }
    return next(iter(ranks)) if len(ranks) == 1 else None


def pids_in(line: str) -> set[int]:
    """Return the pids that a line names."""
    return {int(found[1]) for found in PROCESS.finditer(line[:MAX_READ_CHARACTERS])}


def node_of_end(cause: Alert, alerts: Sequence[Alert]) -> str | None:
    """Return the only node on which a process ended by itself, by lines of the cause's file; or None."""
    file = cause.proof[0].file if cause.proof else None
    nodes = {
        alert.node
        for alert in alerts
        if end_weight(alert, TERMINATED_WEIGHT) < TERMINATED_WEIGHT
        and alert.proof
        and alert.proof[0].file == file
        and file is not None
    }
    return next(iter(nodes)) if len(nodes) == 1 else None


def node_of_process(rank: int, alerts: Sequence[Alert]) -> str | None:
    """Return the node on which the process of a rank was seen to end; None: none, or several."""
    nodes = {each.node for each in alerts if each.rank == rank and is_observed(each)} - {None}
    return next(iter(nodes)) if len(nodes) == 1 else None


def first_to_suffer(
    cause: Alert, alerts: Sequence[Alert], where: RankIndex, job: str | None
) -> tuple[int, str] | None:
    """Return the rank that a cause without a rank hit first, by the ranks' own errors, and why; or None.

    Storage fails for all ranks of a node; the first to read reports first. For other causes, only a rank
    that alone shows the effect counts.
    """
    storage = cause in FILE_SYSTEMS
    if cause.kernel and not storage:
        return None
    suffering = [
        alert
        for alert in alerts
        if alert.rank is not None
        and not alert.kernel
        and alert.severity in ("error", "critical")
        and -SAME_MOMENT_S <= alert.first - cause.first <= SUFFERS_S
        and _may_be_on(alert.rank, cause, alerts, where, job)
    ]
    if storage and cause.node is not None:
        errors = [each for each in suffering if each in FILE_SYSTEMS or each in GENERIC_EXCEPTIONS]
        on_node = [each for each in errors if _node_of(each, where, job) == cause.node]
        ranks = _first_ranks(on_node)
        because = f"the first rank on {cause.node} with its own error after the storage fault"
    else:
        ranks = {each.rank for each in suffering if explains(cause, each) or each.code == cause.code}
        because = "the only rank that reports consequences of the fault"
    rank = next(iter(ranks), None)
    return (rank, because) if len(ranks) == 1 and rank is not None else None


def _first_ranks(errors: Sequence[Alert]) -> set[int | None]:
    """Return the ranks of the errors that may be the first.

    These are, in each file, the uppermost of those that have the earliest time or none.
    """
    moment = min((each.first for each in errors), default=0.0)
    files: dict[object, list[Alert]] = {}
    for each in errors:
        if each.first == moment or not each.timed:
            files.setdefault((each.proof[0].node, each.proof[0].file), []).append(each)
    return {min(each, key=lambda alert: alert.proof[0].offset or 0).rank for each in files.values()}


def _node_of(alert: Alert, where: RankIndex, job: str | None) -> str | None:
    """Return the node of an alert's rank, by its placement or by its line; None: unknown."""
    place = None if alert.rank is None else where.of(alert.rank, job)
    return place.node if place is not None and place.node else alert.node


def _may_be_on(rank: int, cause: Alert, alerts: Sequence[Alert], where: RankIndex, job: str | None) -> bool:
    """Return True if a rank may run where a cause happened, by its placement and by lines about its end."""
    place = where.of(rank, job)
    nodes = {alert.node for alert in alerts if alert.rank == rank and alert in EXITS}
    if place is not None and (job is not None or not nodes):  # without a job it may be another job's rank
        nodes |= {place.node or None}
    return cause.node is None or nodes <= {None, cause.node}
