"""Checks lines about a rank or node in another node's log against that node's own report.

It does not matter how the rank is known (prefix, path, process): the node that sends the line claims it.

Example: gpu-002 sends `rank 5: CUDA error`, but rank 5 runs on gpu-001, whose agent reads rank 5's log and
found no such line. `contradiction` returns a doubt that is refuted, so the line cannot make rank 5 the
culprit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import structs

from gpuwatch.diagnose.model.alert import OWN_LOG, Alert
from gpuwatch.diagnose.model.failure_classes import EXITS, KERNEL_LINES, NODE_FAILURES, VANISHED
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.sources.absent_ranks import other_ranks
from gpuwatch.diagnose.sources.listed_processes import (
    NOTICED_S,
    came_later,
    ended_after,
    ended_first,
    still_runs,
)
from gpuwatch.diagnose.sources.node_report import NodeReport, shared_files
from gpuwatch.diagnose.sources.unconfirmed import kernel_facts, kernel_witness
from gpuwatch.fleet.jobs.places import RankPlace

OwnErrors: TypeAlias = frozenset[tuple[str | None, int | None, str]]
"""Job, rank and node."""


class Doubt(NamedTuple):
    """The doubt on a line: what contradicts it, as text ("" if nothing does), and whether it is refuted."""

    text: str
    """Empty: no doubt."""
    refuted: bool = False
    """True: the line is a root cause only if no other is, and never names the other node as the culprit."""


UNDISPUTED = Doubt("")


class Contradictions:
    """Marks alerts that a node's own reports contradict, or that another fault in a kernel's log explains.

    The kernels' reports are those of the last call of `applied`.
    """

    def __init__(self) -> None:
        self._facts: tuple[Alert, ...] = ()
        """What the kernels report, as `kernel_facts`."""

    def applied(
        self, alerts: Sequence[Alert], where: RankIndex, reports: Mapping[str, NodeReport]
    ) -> list[Alert]:
        """Return the alerts; those that the node of their rank contradicts or does not confirm have a doubt.

        The refuted end of a rank that still runs becomes `info`, if it is in the rank's own log.
        """
        found = []
        confirmed, self._facts = own_errors(alerts), kernel_facts(alerts)
        for alert in alerts:
            doubt = UNDISPUTED if alert.refuted else self._doubt(alert, where, reports, confirmed)
            if doubt.text:
                text = f"{alert.text}; {doubt.text}"
                outlived = doubt.refuted and _is_outlived(alert, where, reports)
                severity = "info" if outlived else alert.severity
                found.append(
                    structs.replace(
                        alert, doubt=doubt.text, refuted=doubt.refuted, text=text, severity=severity
                    )
                )
            else:
                found.append(alert)
        return found

    def changed(self, alerts: Iterable[Alert], where: RankIndex, reports: Mapping[str, NodeReport]) -> bool:
        """Return True if an alert's marks (`doubt`, `refuted`) no longer agree with what the nodes report.

        Alerts of kernel rules are not compared.
        """
        alerts = list(alerts)
        confirmed = own_errors(alerts)
        return any(
            (alert.doubt, alert.refuted) != self._doubt(alert, where, reports, confirmed)
            for alert in alerts
            if alert not in KERNEL_LINES
        )

    def _doubt(
        self, alert: Alert, where: RankIndex, reports: Mapping[str, NodeReport], confirmed: OwnErrors
    ) -> Doubt:
        doubt = contradiction(alert, where, reports, confirmed)
        fact = None if doubt.refuted else kernel_witness(alert, self._facts, where, reports)
        if fact is None:
            return doubt
        sender = min(proof.node for proof in alert.proof if proof.node is not None)
        return Doubt(f"only {sender} reports it, and the kernel of {fact.node} another fault", refuted=True)


def own_errors(alerts: Iterable[Alert]) -> OwnErrors:
    """Return (job, rank, node) of the root and first errors that the ranks' own nodes report."""
    return frozenset(
        (alert.job, alert.rank, alert.node)
        for alert in alerts
        if alert.rank is not None
        and alert.severity in ("error", "critical")
        and alert.role in ("root", "first")
        and alert.node is not None
        and any(proof.node == alert.node for proof in alert.proof)
    )


def contradiction(
    alert: Alert, where: RankIndex, reports: Mapping[str, NodeReport], confirmed: OwnErrors = frozenset()
) -> Doubt:
    """Return the doubt on an alert about another node's rank, node or job, or about a rank that still runs.

    UNDISPUTED if the nodes confirm it or nothing contradicts it. `confirmed`: as `own_errors`.
    """
    place = None if alert.rank is None else where.of(alert.rank, alert.job)
    own = (
        alert.job is None and alert.rank_from == "field" and alert.node in {each.node for each in alert.proof}
    )
    if own and place is not None and place.node and not where.on(alert.node, place.job):
        place = None  # of no known job and about its own node: the rank of that number is of another job
    if place is not None and alert.rank_from is not None and still_runs(alert, place, reports):
        text = f"rank {alert.rank} still runs on {place.node}, as process {place.pid}"
        return Doubt(text, refuted=True)
    senders = {proof.node for proof in alert.proof if proof.node is not None}
    if not senders or any(proof.kind != "line" for proof in alert.proof):
        listed_twice = senders and alert.code == VANISHED
        return _claimed_twice(alert, senders, where) if listed_twice else UNDISPUTED
    if alert in NODE_FAILURES and alert.node is not None and alert.node not in senders:
        doubt = _about_failed_node(alert, alert.node, senders, where, reports)
        if doubt.text:
            return doubt
    if place is not None and came_later(alert, place):
        place = None  # the line's subject ran elsewhere
    if place is not None and place.node and place.node not in senders:
        return _about_rank(alert, place, senders, where, reports, confirmed)
    if (twice := _claimed_twice(alert, senders, where)).text:
        return twice
    if place is None and alert.node is not None and alert.node not in senders:
        if _shares(alert.job, alert.node, senders, where, reports):
            return _about_node_of_job(alert, alert.node, senders, where, reports)
        return _about_node(alert, alert.node, senders, where, reports)
    listed = _about_listed(alert, senders, where, reports)
    return listed if listed.text else _about_job(alert, senders, where, reports)


def _claimed_twice(alert: Alert, senders: set[str], where: RankIndex) -> Doubt:
    """Return the doubt on a line about a rank that several nodes claim to run.

    A node with far more undisputed ranks of the job is trusted over the other node. Otherwise the lines of
    neither are refuted. A line of a node that does not list the rank is refuted if one that does has
    undisputed ranks of the job.
    """
    if alert.rank is None:
        return UNDISPUTED
    claimants = where.claimants.of(alert.rank, alert.job)
    others = sorted(claimants - senders)
    if len(claimants) < 2 or not others:
        return UNDISPUTED
    text = f"rank {alert.rank} of this job is also listed by {' and '.join(others[:2])}"
    own = claimants & senders
    if not own:
        return Doubt(text, refuted=any(where.claimants.undisputed(other, alert.job) for other in others))
    outweighed = all(
        any(where.claimants.outweighs(other, node, alert.job) for other in others) for node in own
    )
    return Doubt(text, refuted=outweighed)


def _about_failed_node(
    alert: Alert, node: str, senders: set[str], where: RankIndex, reports: Mapping[str, NodeReport]
) -> Doubt:
    """Return the doubt on a line that a node failed, if that node responds and was not rebooted since.

    The node's own report outweighs the line, even a line from a node of the same job: ranks that started
    before the line and still run refute it. A node that merely responds may have been cut off for a while;
    that is refuted only if the senders run no job together with the node.
    """
    own = reports.get(node, NodeReport())
    if not own.is_live or (own.booted_at is not None and own.booted_at > alert.first):
        return UNDISPUTED
    running = [place for place in _started_before(alert, node, where) if place.until is None]
    if running:
        return Doubt(
            f"{node} responds, and {len(running)} ranks started before this alert are still running there",
            True,
        )
    is_outside = not any(_shares(job, node, senders, where, reports) for job in _jobs(node, where, reports))
    return Doubt(f"{node} responds now and has not been rebooted since", refuted=is_outside)


def _about_node_of_job(
    alert: Alert, node: str, senders: set[str], where: RankIndex, reports: Mapping[str, NodeReport]
) -> Doubt:
    """Return the doubt on a line about another node of the job, if all ranks there still run.

    Launchers log such lines. A process that ended may be listed for some more seconds: until then the line
    is only unconfirmed.
    """
    own = reports.get(node, NodeReport())
    before = _started_before(alert, node, where)
    if not (own.is_live and before) or any(place.until is not None for place in before):
        return UNDISPUTED
    text = (
        f"reported only by {_named(senders)}: {node} responds, and its {len(before)} ranks are still running"
    )
    return Doubt(text, refuted=own.processes_at is not None and own.processes_at > alert.first + NOTICED_S)


def _started_before(alert: Alert, node: str, where: RankIndex) -> list[RankPlace]:
    return [place for place in where.on(node) if place.started is not None and place.started < alert.first]


def _about_rank(
    alert: Alert,
    place: RankPlace,
    senders: set[str],
    where: RankIndex,
    reports: Mapping[str, NodeReport],
    confirmed: OwnErrors,
) -> Doubt:
    """Return the doubt on a line about a rank of another node.

    The end of the rank there, or a line in its own file, confirms the line. The end alone proves no reason:
    all ranks of a job end when one fails.
    """
    own = reports.get(place.node, NodeReport())
    seen = shared_files(alert, reports)
    if seen & {own.shared.get(path) for path in place.logs}:
        return UNDISPUTED
    job_mates = _shares(place.job, place.node, senders, where, reports)
    if ended_after(alert, place):
        if place.pid is None or seen & set(own.shared.values()):
            return UNDISPUTED
        if job_mates:
            confirms = ended_first(place, where) or (alert.job, alert.rank, place.node) in confirmed
            return UNDISPUTED if confirms else Doubt(f"only {_named(senders)} reports it")
        return Doubt(f"{_named(senders)}, which logged it, runs no process of that job", refuted=True)
    is_read = any(path in own.read for path in place.logs)
    log = "its own log there does not contain it" if is_read else "nothing there confirms it"
    refuted = not job_mates or (is_read and alert not in EXITS)
    return Doubt(
        f"rank {alert.rank} runs on {place.node}, and {log}", refuted and not seen & set(own.shared.values())
    )


def _about_node(
    alert: Alert, node: str, senders: set[str], where: RankIndex, reports: Mapping[str, NodeReport]
) -> Doubt:
    """Return the doubt on a line that names another node, from nodes that run no job together with it.

    For an ended job, a node that runs no rank of the job does not contradict the line if it sees the file;
    else the line is doubted.
    """
    jobs = _jobs(node, where, reports)
    if any(_shares(job, node, senders, where, reports) for job in jobs):
        return UNDISPUTED
    if not jobs or (alert.job is not None and alert.job not in jobs):
        own = reports.get(node, NodeReport())
        is_seen = bool(shared_files(alert, reports) & set(own.shared.values()))
        return UNDISPUTED if is_seen else Doubt(f"nothing on {node} confirms it")
    return Doubt(f"{_named(senders)}, which logged it, runs no job together with {node}", refuted=True)


def _about_listed(
    alert: Alert, senders: set[str], where: RankIndex, reports: Mapping[str, NodeReport]
) -> Doubt:
    """Return the doubt on a line that lists another node's ranks (or a peer), from outside their job."""
    places = [where.of(rank, alert.job) for rank in other_ranks(alert)]
    listed = [place for place in places if place is not None and place.node not in senders]
    if any(_shares(place.job, place.node, senders, where, reports) for place in listed):
        return UNDISPUTED
    text = f"{_named(senders)}, which logged it, runs no process of that job"
    return Doubt(text, refuted=True) if listed else UNDISPUTED


def _about_job(alert: Alert, senders: set[str], where: RankIndex, reports: Mapping[str, NodeReport]) -> Doubt:
    """Return the doubt on a line about a job, from nodes that run no rank of it or only disputed ones.

    A launcher elsewhere may write such a line, and a log that the job's nodes see too may be read anywhere.
    """
    if alert.job is None and alert.node is not None:
        return UNDISPUTED
    members = {place.node for place in where.ranks(alert.job) if place.node and place.pid is not None}
    if not members or any(where.claimants.is_member(node, alert.job) for node in senders):
        return UNDISPUTED
    if members & senders:
        return Doubt(f"other nodes list all ranks that {_named(senders)}, which logged it, lists")
    seen = shared_files(alert, reports)
    if any(seen & set(reports.get(node, NodeReport()).shared.values()) for node in members):
        return UNDISPUTED
    launches = any(alert.job in reports.get(node, NodeReport()).jobs for node in senders)
    text = f"{_named(senders)}, which logged it, runs no rank of that job now"
    return Doubt(text, refuted=alert.job is None or not launches)


def _jobs(node: str, where: RankIndex, reports: Mapping[str, NodeReport]) -> set[str | None]:
    """Return the jobs of a node's ranks (ended ones too) and launchers."""
    return {place.job for place in where.on(node)} | reports.get(node, NodeReport()).jobs


def _shares(
    job: str | None, node: str, senders: set[str], where: RankIndex, reports: Mapping[str, NodeReport]
) -> bool:
    """Return True if a sender runs ranks or the launcher of a node's job, and no other world size of it."""
    if job not in _jobs(node, where, reports):
        return False
    own_sizes = _world_sizes(node, job, where)
    for sender in senders:
        sizes = _world_sizes(sender, job, where)
        disagrees = own_sizes and sizes and not own_sizes & sizes
        if where.claimants.is_doubtful(sender, job):
            continue
        if job in _jobs(sender, where, reports) and not disagrees:
            return True
    return False


def _world_sizes(node: str, job: str | None, where: RankIndex) -> set[int]:
    """Return the world sizes that a node's ranks of a job report, ended attempts included."""
    places = (place for place in where.on(node) if place.job == job)
    return {place.world_size for place in places if place.world_size is not None}


def _named(nodes: set[str]) -> str:
    return min(nodes)


def _is_outlived(alert: Alert, where: RankIndex, reports: Mapping[str, NodeReport]) -> bool:
    """Return True for a line about a rank's end in the rank's own log, if the rank still runs.

    Such a line may be generated text.
    """
    own = alert.rank is not None and alert.rank_from in OWN_LOG
    place = where.of(alert.rank, alert.job) if own and alert.rank is not None else None
    return place is not None and still_runs(alert, place, reports)
