"""The job of an alert: the one that it names, else the only one that can have it. Pure.

Example: the kernel of gpu-003 reports an Xid of GPU 5, and names no job. Only rank 21 of job 4711 ran on that
GPU then, so `own_job` returns 4711. If two jobs shared the GPU, it returns None, and `likely_job` returns the
only job that reported anything and had ranks on gpu-003; where several jobs reported something, None.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

from gpuwatch.diagnose.model.alert import OF_ENDED_JOB, Alert
from gpuwatch.diagnose.model.failure_classes import EXITS, MEMORY_KILLS, RANK_ENDS
from gpuwatch.diagnose.model.rank_index import STARTED_S, RankIndex, lived
from gpuwatch.diagnose.model.timing import onset
from gpuwatch.fleet.jobs.places import RankPlace, Reach

GAP_S = 120.0
"""Seconds between failures that separate incidents.

It is longer than any delay within a causal chain (fabric retries 30 s, launchers' kill wait 30 to 60 s).
"""
FAULT_S = 3600.0
"""Seconds for which a fault of a node may be the cause of a failure: collectives time out after 30 min."""


def own_job(alert: Alert, where: RankIndex) -> str | None:
    """Return the job of an alert: the one it names, or the only one on its rank, GPU or node; else None."""
    line = is_log_line(alert)
    if OF_ENDED_JOB in alert.fields:
        return None
    if alert.job is not None:
        weighed = line or alert in RANK_ENDS  # by the nodes' lists, the job runs elsewhere
        return alert.job if weighed or not where.claimants.is_doubtful(alert.node, alert.job) else None
    if line and _reach(alert, where) == "none":
        return None
    if alert.rank is not None and not alert.kernel:
        place = where.of(alert.rank, None, alert.first)
        return None if place is None or _is_apart(alert, place, where) else place.job
    if line and _reach(alert, where) == "fleet" and len(where.running(alert.first)) > 1:
        return None  # whichever node follows the file, it may be of any job
    able = [
        place
        for place in where.on(alert.node, at=when(alert))
        if alert.gpu is None or place.gpu in (None, alert.gpu)
        if line or not where.claimants.is_doubtful(place.node, place.job)
    ]
    jobs = {place.job for place in (able if line else _newest(able))}
    return next(iter(jobs)) if len(jobs) == 1 else None


def _newest(places: Sequence[RankPlace]) -> list[RankPlace]:
    """Return the places of the ranks that had not ended when the newest of these ranks began."""
    began = max((place.since for place in places if place.since is not None), default=0.0)
    return [place for place in places if place.until is None or place.until > began + STARTED_S]


def likely_job(alert: Alert, reported: Mapping[str, list[float]], where: RankIndex) -> str | None:
    """Return the job of an alert that names none: the only one that can have it and failed then, or None."""
    jobs = list(reported)
    if len(jobs) > 1:
        began = onset(alert)
        jobs = [job for job in jobs if _near(reported[job], began)]
    if len(jobs) != 1 or OF_ENDED_JOB in alert.fields or not _may_be_of(alert, jobs[0], where):
        return None
    if not is_log_line(alert):
        far = len(reported) > 1 or _is_long_before(alert, jobs[0], reported[jobs[0]], where)
        return None if far else jobs[0]
    reach = _reach(alert, where)
    if reach == "none" or not where.may_have(jobs[0], alert.rank):
        return None
    ran = where.running(alert.first, alert.node if reach == "node" and where.on(alert.node) else None)
    others = [job for job in ran if job != jobs[0] and where.may_have(job, alert.rank)]
    return None if others else jobs[0]


def start_times(alerts: Sequence[Alert], own: Mapping[str, str | None]) -> dict[str, list[float]]:
    """Return job -> sorted start times of its alerts. `own`: alert id -> job."""
    found: dict[str, list[float]] = defaultdict(list)
    for alert in alerts:
        job = own[alert.id]
        if job is not None:
            found[job].append(onset(alert))
    return {job: sorted(moments) for job, moments in found.items()}


def _near(moments: Sequence[float], moment: float) -> bool:
    at = bisect_left(moments, moment - GAP_S)
    return at < len(moments) and moments[at] <= moment + GAP_S


def _is_long_before(alert: Alert, job: str, moments: Sequence[float], where: RankIndex) -> bool:
    """Return True if a node's event is too old to be of a job on live nodes of which no rank is known.

    The job may have begun after it. `moments`: when the job failed (unix seconds), sorted.
    """
    if not where.places.live or where.ranks(job):
        return False
    lead = GAP_S if alert in EXITS or alert in MEMORY_KILLS else FAULT_S
    return onset(alert) < moments[0] - lead


def _may_be_of(alert: Alert, job: str, where: RankIndex) -> bool:
    """Return True if an alert without a job may belong to this job, by where and when its ranks ran."""
    if alert.node is None:
        return True
    if alert.rank is not None:
        own = where.of(alert.rank, job)
        return own is None or not _is_apart(alert, own, where)
    at = when(alert)
    if at is not None and not any(lived(place, at) for place in where.ranks(job)):
        return not where.ranks(job)
    nodes = {place.node for place in where.places.ranks if place.job == job}
    whole = len(where.world(job)) <= sum(1 for place in where.places.ranks if place.job == job)
    if where.claimants.is_doubtful(alert.node, job):
        return False
    return alert.node in nodes or not nodes or not whole


def _is_apart(alert: Alert, place: RankPlace, where: RankIndex) -> bool:
    """Return True if an alert's line names a node of a live fleet without a rank of the place's job."""
    named = where.places.live and alert.rank_from == "field" and alert.node is not None
    return named and bool(place.node) and not where.on(alert.node, place.job)


def when(alert: Alert) -> float | None:
    """Return when the alert's error last happened, or when its event began (unix seconds); None: unknown."""
    event = alert.kernel or alert.proof[0].kind == "event" or alert.code == "xid"
    return (alert.first if event else alert.last) if alert.timed else None


def is_log_line(alert: Alert) -> bool:
    """Return True for a line in a job's log; kernel reports are about the node, wherever they are printed."""
    return alert.proof[0].kind == "line" and not alert.kernel


def _reach(alert: Alert, where: RankIndex) -> Reach:
    return where.reach(alert.proof[0].node, alert.proof[0].file)
