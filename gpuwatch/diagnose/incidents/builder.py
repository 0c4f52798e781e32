"""Builds incidents from alerts: headline, evidence, confidence and next steps. Pure.

Example: rank 5 logs `CUDA error: uncorrectable ECC` at 10:00:00, and ranks 0-4 and 6-7 log NCCL timeouts at
10:10:01. `groups` puts the eight alerts into one group (one job, and the operation that timed out began
before the gap), `root_cause_of` picks the ECC error, `chosen_culprit` names rank 5 with its node and GPU,
`sentence` writes the headline, and `playbook` gives the steps of `cuda.ecc`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs
from msgspec.structs import replace

from gpuwatch.diagnose.alerts.placement.named_gpu import device_of
from gpuwatch.diagnose.error_outcome.consequence import severity_of_incident
from gpuwatch.diagnose.error_outcome.observed_end import without_doubled_ends
from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.incidents.causes.explaining_error import raised_by
from gpuwatch.diagnose.incidents.causes.grouping import AlertGroup, groups
from gpuwatch.diagnose.incidents.causes.lost_peer_ranks import signalled_first, with_lost_peers_placed
from gpuwatch.diagnose.incidents.causes.root_cause import RootCause, root_cause_of
from gpuwatch.diagnose.incidents.culprits.culprit import (
    CulpritChoice,
    chosen_culprit,
    where_it_ended,
    without_refuted_place,
)
from gpuwatch.diagnose.incidents.culprits.suspects import Hang, hang
from gpuwatch.diagnose.incidents.headline.facts import HeadlineFacts, followers
from gpuwatch.diagnose.incidents.headline.headline import first_of_several, sentence
from gpuwatch.diagnose.incidents.playbook import STOPPED_DO, STOPPED_EXPLAIN, playbook, settle
from gpuwatch.diagnose.incidents.timeline import timeline
from gpuwatch.diagnose.model.alert import RANK_INFERRED, Alert
from gpuwatch.diagnose.model.device_kind import device_kind, for_device, steps_for
from gpuwatch.diagnose.model.failure_classes import EXITS, KERNEL_LINES, STOPS_RANKS, TIMEOUTS, RulePacks
from gpuwatch.diagnose.model.incident import UNKNOWN, Incident
from gpuwatch.diagnose.model.last_activity import Activity, last_activity
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.text import guessed
from gpuwatch.diagnose.sources.printed_kernel_lines import that_may_lead
from gpuwatch.fleet.jobs.places import Places, RankPlace

INFERRED = "the program numbers its ranks itself: their numbers are inferred from the order of their starts"


def incidents(
    alerts: Iterable[Alert],
    places: Places,
    packs: RulePacks,
    now: float,
    last_lines: Mapping[int, Activity] | None = None,
) -> list[Incident]:
    """Return every incident that the alerts form, numbered by time.

    Args:
        alerts: The alerts of findings and conditions, on one clock.
        places: Where the ranks run, as far as is known.
        packs: The rules, which have the playbooks.
        now: Unix seconds; decides only whether a date stands in a sentence.
        last_lines: Rank -> the last line that it logged, if its file is known.
    """
    where = RankIndex(places)
    return in_order(
        incident_of(group, where, packs, now, last_lines) for group in groups(list(alerts), where)
    )


def in_order(found: Iterable[Incident]) -> list[Incident]:
    """Return the incidents sorted by time and numbered from 1."""
    ordered = sorted(found, key=lambda incident: (incident.first, incident.id))
    return [structs.replace(incident, number=number) for number, incident in enumerate(ordered, 1)]


def incident_of(
    group: AlertGroup,
    where: RankIndex,
    packs: RulePacks,
    now: float,
    last_lines: Mapping[int, Activity] | None = None,
) -> Incident:
    """Return the incident of one group, with number 0.

    `now`: unix seconds. `last_lines`: rank -> the last line that it logged, if its file is known.
    """
    facts, culprit = _judged(group, where, last_lines or {})
    cause, stuck, alerts, job = facts.cause, facts.hang, facts.alerts, facts.job
    text = sentence(facts, where, now)
    if cause is not None and first_of_several(facts, cause, where):
        culprit = replace(culprit, rank=None, gpu=None)
    if _inferred(culprit.rank, cause, where.ranks(job)):
        text = guessed(text)
        culprit = replace(culprit, confidence="low", because=f"{culprit.because}; {INFERRED}")
    code = _class(cause, stuck, alerts)
    explain, do, links = _playbook(code, cause, alerts, culprit, packs)
    first_id = min(alerts, key=lambda alert: (alert.first, alert.id)).id
    taken = acknowledged_since(cause, alerts)
    return Incident(
        id=f"{job or 'nodes'}-{zlib.crc32(first_id.encode()):08x}",
        number=0,
        headline=text,
        code=code,
        severity=severity_of_incident(cause, alerts),
        first=_first_moment(cause, stuck, alerts),
        last=max(alert.last for alert in alerts),
        rank=culprit.rank,
        node=culprit.node,
        gpu=culprit.gpu,
        job=job,
        confidence=culprit.confidence,
        because=culprit.because,
        settle=_settled_by(facts, culprit, where),
        cause=cause,
        alerts=tuple(sorted(alerts, key=lambda alert: (alert is not cause, alert.is_remark))),
        followers=followers(facts, where),
        silent=stuck.silent if stuck is not None else (),
        timeline=timeline(alerts, stuck),
        explain=explain,
        do=do,
        links=links,
        last_activity=facts.did,
        over=_is_over(alerts),
        acknowledged=taken is not None,
        acknowledged_at=None if taken is None else taken[0],
        acknowledged_by=None if taken is None else taken[1],
    )


def _judged(
    group: AlertGroup, where: RankIndex, last_lines: Mapping[int, Activity]
) -> tuple[HeadlineFacts, CulpritChoice]:
    """Return the facts for the headline of a group (alerts with the root cause first), and the culprit."""
    alerts = sorted(group.alerts, key=lambda alert: (alert.first, alert.position))
    job = group.job or next((alert.job for alert in alerts if alert.job), None)
    alerts = [within_world(alert, where, job) for alert in alerts]
    believed = with_lost_peers_placed(without_doubled_ends(that_may_lead(alerts)), alerts, where)
    believed = signalled_first(believed, alerts)
    root_cause, stuck = _root_cause(believed, where, job)
    cause = root_cause.cause
    if cause is not None:
        believed = [each for each in believed if each.kernel or group.same_attempt(cause, each)]
    chosen = where_it_ended(chosen_culprit(root_cause, stuck, believed, where, job), alerts)
    culprit = without_refuted_place(chosen, cause, believed)
    if cause is not None and culprit.gpu is None and culprit.rank is not None and not where.places.live:
        place = where.of(culprit.rank, job) or RankPlace(culprit.rank, "")
        address = cause.fields.get("bus_id") or cause.fields.get("pci")
        listed = None if address is None else where.gpu(culprit.node, None, str(address))
        device = device_of(cause.fields.get("device"), place)
        culprit = replace(culprit, gpu=device if listed is None else listed)
    if cause is not None:
        alerts = [cause, *(alert for alert in alerts if alert.id != cause.id)]
    facts = HeadlineFacts(
        cause=cause,
        rank=culprit.rank,
        node=culprit.node,
        gpu=culprit.gpu,
        hang=stuck,
        alerts=tuple(alerts),
        named=root_cause.named,
        votes=culprit.votes,
        job=job,
        did=_last_activity(stuck, alerts, last_lines) if cause is None else None,
    )
    return facts, culprit


def within_world(alert: Alert, where: RankIndex, job: str | None) -> Alert:
    """Return the alert; its rank, or named peer, is removed if its job has no rank with that number."""
    if not where.may_be_rank(alert.rank, job):
        alert = structs.replace(alert, rank=None, rank_from=None)
    peer = alert.fields.get("peer_rank")
    if isinstance(peer, int) and not where.may_be_rank(peer, job):
        fields = {name: value for name, value in alert.fields.items() if name != "peer_rank"}
        alert = structs.replace(alert, fields=fields)
    return alert


def _root_cause(
    believed: Sequence[Alert], where: RankIndex, job: str | None
) -> tuple[RootCause, Hang | None]:
    """Return the root cause among the unrefuted alerts, and the collective that hangs (None: none does)."""
    found, stuck = root_cause_of(believed), hang(believed, where, job)
    found.named = tuple(rank for rank in found.named if where.may_be_rank(rank, job))
    if found.cause is not None and found.cause.code == HANG and found.cause.rank is None:
        # no rank stood out by outside signs; later time-outs may show which one did not take part
        found = found if stuck is None or not stuck.suspects else RootCause()
    return found, stuck


def _playbook(
    code: str, cause: Alert | None, alerts: Sequence[Alert], culprit: CulpritChoice, packs: RulePacks
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return explanation, steps and links for an incident of class `code`.

    If the cause's process raised an exception, they are those of the exception's class.
    """
    if cause is not None and cause.code == UNKNOWN:  # all that is known is that logs end early
        return STOPPED_EXPLAIN, STOPPED_DO, ()
    raised = None if cause is None else raised_by(cause, alerts)
    reporting = raised or cause
    of_kernel = reporting is None or reporting.kernel or not reporting.proof
    kind = None if of_kernel or reporting is None else device_kind(reporting.proof[0].text)
    explain, do, links = playbook(
        code if raised is None else raised.code,
        packs,
        culprit.node,
        culprit.gpu,
        culprit.rank,
        unconfirmed=cause is not None
        and (bool(cause.doubt) or cause.writer_unknown)
        and cause in KERNEL_LINES,
    )
    return for_device(explain, kind), steps_for(do, kind), links


def _is_over(alerts: Sequence[Alert]) -> bool:
    """Return True if no alert fires any more; a remark that still fires counts only among remarks."""
    weighed = [alert for alert in alerts if not alert.is_remark] or alerts
    return all(alert.state != "firing" for alert in weighed)


def _inferred(rank: int | None, cause: Alert | None, places: Iterable[RankPlace]) -> bool:
    """Return True if the number of the culprit's rank is only inferred from the start order of processes.

    False if a log states the number and no rank of inferred number writes that log.
    """
    if cause is not None and rank is not None and cause.rank == rank and by_order(cause):
        return True
    files = {file for each in places if each.inferred for file in (None, *each.logs)}
    if not files:
        return False
    if cause is None or cause.rank != rank or cause.rank_from not in ("path", "line", "field"):
        return True
    return any(proof.file in files for proof in cause.proof[:1])


def by_order(alert: Alert) -> bool:
    """Return True if the alert's rank is inferred from the order in which its process was started."""
    spawned = alert.rank_from == "index" and alert.fields.get("proc_index") is not None
    return spawned or RANK_INFERRED in alert.fields


def _last_activity(
    stuck: Hang | None, alerts: Sequence[Alert], last_lines: Mapping[int, Activity]
) -> Activity | None:
    if stuck is None:
        return None
    return last_activity(stuck.suspects, [alert for alert in alerts if alert in TIMEOUTS], last_lines)


def _class(cause: Alert | None, stuck: Hang | None, alerts: Sequence[Alert]) -> str:
    """Return the failure class of an incident.

    It is that of its cause, else of its timeouts, else of its first error, else `UNKNOWN`.
    """
    if cause is not None:
        return cause.code
    if stuck is not None:
        return stuck.code
    errors = [alert for alert in alerts if alert.severity in ("error", "critical") and alert.role != "hint"]
    return errors[0].code if errors else UNKNOWN


def _settled_by(stated: HeadlineFacts, culprit: CulpritChoice, where: RankIndex) -> tuple[str, ...]:
    """Return the checks that would confirm the verdict.

    For a hang without a log line, the signs of the hang list the checks.
    """
    cause = stated.cause
    if cause is not None and cause.code == HANG:
        return tuple(str(cause.fields["settle"]).split("; "))
    ended = any(alert in EXITS or alert in STOPS_RANKS for alert in stated.alerts)
    return settle(cause, culprit, stated.hang, stated.job, where, ended=ended)


def _first_moment(cause: Alert | None, stuck: Hang | None, alerts: Sequence[Alert]) -> float:
    if cause is not None:
        return cause.first
    stated = [alert for alert in alerts if alert.role != "hint"] or alerts
    return stuck.began if stuck is not None else min(alert.first for alert in stated)


def acknowledged_since(cause: Alert | None, alerts: Sequence[Alert]) -> tuple[float, str | None] | None:
    """Return when the last relevant alert was acknowledged (unix seconds), and by whom.

    None: not all relevant alerts are acknowledged.

    Only the cause is relevant, if there is one.
    """
    weighed = alerts if cause is None else [cause]
    if not all(alert.acknowledged for alert in weighed):
        return None
    last = max(weighed, key=lambda alert: alert.acknowledged_at or 0.0)
    return last.acknowledged_at or 0.0, last.acknowledged_by
