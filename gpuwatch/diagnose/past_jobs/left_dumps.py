"""Finds the rank that a job waited for in the flight-recorder dumps beside its logs. Pure.

Example: the logs of three ranks report a time-out of ALLREDUCE, and none states a cause. The dumps show that
rank 0 called broadcast where three ranks called all_reduce: the incident names rank 0, with the dumps as its
evidence. A cause that a log states is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs
from msgspec.structs import replace

from gpuwatch.diagnose.hang.answer import without_ranks
from gpuwatch.diagnose.hang.flight_recorder.verdict import FlightAnalysis, judge_flight
from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.incidents.playbook import UNKNOWN_DO, UNKNOWN_EXPLAIN
from gpuwatch.diagnose.model.failure_classes import TIMEOUTS, of_kinds
from gpuwatch.diagnose.model.incident import UNKNOWN, HangCheck, Incident
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.text import place
from gpuwatch.number_text import plural
from gpuwatch.runs.flight.rank_dump import RankDump

OPEN_CAUSES = TIMEOUTS | of_kinds("mismatch") | (HANG, UNKNOWN)
"""Classes that report what the job waited in, not why: a culprit from dumps explains them."""
BEFORE_S = 5.0
"""Seconds by which the hung collective may begin after the last line of its incident (clocks, buffers)."""


def with_dumps(incidents: Sequence[Incident], dumps: Sequence[RankDump], where: RankIndex) -> list[Incident]:
    """Return the incidents; one gets the dumps' verdict, and their headline and culprit if no cause is known.

    Dumps with a verdict of low confidence change no culprit.
    """
    if not dumps:
        return list(incidents)
    analysis = judge_flight(dumps)
    about = _about(incidents, analysis)
    return [_refined(each, dumps, analysis, where) if each is about else each for each in incidents]


def _about(incidents: Sequence[Incident], analysis: FlightAnalysis) -> Incident | None:
    """Return the incident that the dumps are about: the last one without a stated cause, else the last.

    A timeout is no stated cause. None: the dumps show no fault, or one that began after all incidents.
    """
    if not analysis.verdict.wrong:
        return None
    since = analysis.problems[0].since_s if analysis.problems else None
    able = [each for each in incidents if since is None or each.last >= since - BEFORE_S]
    return max(able, key=lambda each: (_is_open(each), each.last), default=None)


def _is_open(incident: Incident) -> bool:
    return incident.cause is None or incident.cause in OPEN_CAUSES


def _refined(
    incident: Incident, dumps: Sequence[RankDump], analysis: FlightAnalysis, where: RankIndex
) -> Incident:
    stated = analysis.verdict
    basis = f"{plural(len(dumps), 'flight-recorder dump')} of the job"
    at = max((each.newest.created_s or 0.0 for each in dumps if each.newest), default=0.0) or incident.last
    check = HangCheck(at, replace(stated, evidence=(*stated.evidence, basis)))
    incident = structs.replace(incident, hang_check=check)
    if not _is_open(incident) or not stated.culprits or stated.confidence == "low":
        return incident
    if incident.code == UNKNOWN:  # not a stop without a reason, but a hang
        incident = structs.replace(incident, explain=UNKNOWN_EXPLAIN, do=UNKNOWN_DO)
    headline = stated.sentence
    there = where.of(stated.culprits[0], incident.job)
    node, gpu = (None, None) if there is None else (there.node or None, there.gpu)
    if len(stated.culprits) == 1:
        headline = f"{place(stated.culprits[0], node, gpu)} {without_ranks(headline)}"
    return structs.replace(
        incident,
        headline=headline,
        rank=stated.culprits[0],
        node=node,
        gpu=gpu,
        confidence=stated.confidence,
        because=f"{basis} show it",
        settle=stated.settle,
        silent=(),
    )
