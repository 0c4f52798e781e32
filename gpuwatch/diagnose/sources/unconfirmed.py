"""Lowers the weight of what only another node's lines say of a node that responds.

`with_unconfirmed_node` lowers the confidence of a verdict. `kernel_witness` finds a better reason: gpu-003
sends `gpu-001: ssh: connect to host gpu-001 port 22: Connection timed out`, and in the same minute the kernel
of gpu-002, which runs ranks of the job, reports that a GPU has fallen off the bus.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import EXITS, PEER_CONNECTION_ERRORS, VANISHED
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.rank_index import RankIndex, started_anew
from gpuwatch.diagnose.sources.absent_ranks import absent_ranks, other_ranks
from gpuwatch.diagnose.sources.listed_processes import ended_first
from gpuwatch.diagnose.sources.node_report import NodeReport, shared_files

AGREEING_NODES = 2
"""Number of nodes whose equal reports about another node are believed: one hostile node cannot forge that."""
SAME_STOP_S = 120.0
"""Most seconds between a kernel's report and lines about the stop that it explains; time-outs come later."""


def with_unconfirmed_node(
    incident: Incident, where: RankIndex, reports: Mapping[str, NodeReport]
) -> Incident:
    """Return the incident; with medium confidence if only one other node's lines name the culprit's node.

    It does not matter how the lines name the node (a field, a list of ranks, another line's rank): the node's
    own report counts. A node that does not respond, or on which a rank ended, does not contradict.
    """
    cause, node = incident.cause, incident.node or _node_of_rank(incident, where)
    if incident.confidence != "high" or cause is None or node is None:
        return incident
    if not cause.proof or any(proof.kind != "line" for proof in cause.proof):
        return incident
    senders = {proof.node for proof in cause.proof} - {None}
    if node in senders or not senders or _confirmed(incident, cause, node):
        return incident
    own = reports.get(node, NodeReport())
    booted = own.booted_at is not None and own.booted_at > cause.first
    sees_the_file = bool(shared_files(cause, reports) & set(own.shared.values()))
    if not own.is_live or booted or sees_the_file or not _runs_on(incident, cause, node, where):
        return incident
    if not where.on(node, incident.job):
        who = "it runs no rank of that job"
    else:
        who = "its ranks ran on" if incident.rank is None else f"rank {incident.rank} ran on there"
    because = (
        f"{incident.because}; but only {min(filter(None, senders))} reports it: {node} answers, and {who}"
    )
    return structs.replace(incident, confidence="medium", because=because)


def _node_of_rank(incident: Incident, where: RankIndex) -> str | None:
    """Return the node of the culprit rank, for a verdict that names the rank alone; None: unknown."""
    place = None if incident.rank is None else where.of(incident.rank, incident.job)
    return None if place is None else place.node or None


def _confirmed(incident: Incident, cause: Alert, node: str) -> bool:
    """Return True if the node itself reports an error, or several others report the same as the cause.

    That a process is gone confirms only a line about its end: all ranks of a job end when one fails.
    """
    own = any(
        alert.severity in ("error", "critical")
        and alert.role in ("root", "first")
        and not alert.refuted
        and (alert.code != VANISHED or cause in EXITS)
        and incident.rank in (None, alert.rank)
        and any(proof.node == node for proof in alert.proof)
        for alert in incident.alerts
    )
    same = {
        proof.node
        for alert in incident.alerts
        if alert.code == cause.code and _is_about(alert, incident, cause, node)
        for proof in alert.proof
    }
    return own or len(same - {None, node}) >= AGREEING_NODES


def _is_about(alert: Alert, incident: Incident, cause: Alert, node: str) -> bool:
    """Return True if an alert of the cause's kind is about the culprit, not the same failure of another."""
    if cause in PEER_CONNECTION_ERRORS or absent_ranks(cause):
        return True  # the lines name others than the ranks that wrote them
    return alert.node == node or (incident.rank is not None and alert.rank == incident.rank)


def _runs_on(incident: Incident, cause: Alert, node: str, where: RankIndex) -> bool:
    """Return True if the culprit, or every rank of its node, kept running: no restart, no earlier end.

    Of a rank or job that the node does not run it is True if the node runs ranks of another job.
    """
    named = [place for place in where.on(node, incident.job) if incident.rank in (None, place.rank)]
    if not named:
        return any(place.job != incident.job for place in where.on(node))
    return not any(
        (place.until is not None and ended_first(place, where)) or started_anew(place, cause.first)
        for place in named
    )


def kernel_facts(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Return the critical root alerts of a kernel or driver, without the doubtful and the unattributed."""
    return tuple(
        alert
        for alert in alerts
        if alert.kernel
        and alert.severity == "critical"
        and alert.role == "root"
        and not (alert.doubt or alert.writer_unknown)
    )


def kernel_witness(
    alert: Alert, facts: Sequence[Alert], where: RankIndex, reports: Mapping[str, NodeReport]
) -> Alert | None:
    """Return the fact that explains the stop of which a line of another node gives another cause.

    None: there is none, the line is about the node that sends it, or the fact's node sees the line too.

    Args:
        alert: The alert of the line.
        facts: As `kernel_facts`.
        where: Where the ranks run.
        reports: Node -> its report.
    """
    senders = {proof.node for proof in alert.proof} - {None}
    if not facts or not senders or alert.kernel or any(proof.kind != "line" for proof in alert.proof):
        return None
    if not _is_about_others(alert, senders, where):
        return None
    seen = shared_files(alert, reports)
    for fact in facts:
        node = fact.node or ""
        own = reports.get(node, NodeReport())
        near = abs(fact.first - alert.first) <= SAME_STOP_S + fact.error_s + alert.error_s
        if near and node not in senders and own.is_live and not seen & set(own.shared.values()):
            jobs = {place.job for place in where.on(node)}
            if any(place.job in jobs for sender in senders for place in where.on(sender)):
                return fact
    return None


def _is_about_others(alert: Alert, senders: set[str | None], where: RankIndex) -> bool:
    """Return True if a line names a rank or node apart from those that send it, or a job alone."""
    ranks = other_ranks(alert)
    ranks = ranks if alert.rank is None else (*ranks, alert.rank)
    places = [where.of(rank, alert.job) for rank in ranks]
    if any(place is not None and place.node not in senders for place in places):
        return True
    return alert.node not in senders and not any(places)
