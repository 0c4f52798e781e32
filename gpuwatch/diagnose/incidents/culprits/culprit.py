"""The rank or node where the failure that `root_cause` found happened, and the confidence. Pure.

Example: the log of rank 5 has `CUDA error: an illegal memory access`: the culprit is rank 5. A barrier's
line `Ranks 3 failed to pass monitoredBarrier` in the log of rank 0 lists rank 3: the culprit is rank 3.
`Connection reset by peer [10.0.0.7]:41234` is what a survivor reports: the node with that address is the
suspect. Each doubt about the cause lowers the confidence by a level.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.diagnose.incidents.causes.root_cause import RootCause
from gpuwatch.diagnose.incidents.culprits.cause_confidence import confidence_of
from gpuwatch.diagnose.incidents.culprits.culprit_rank import (
    killed_together,
    node_of_end,
    node_of_process,
    rank_of_cause,
)
from gpuwatch.diagnose.incidents.culprits.suspects import (
    MAX_NAMED_SUSPECTS,
    Hang,
    all_placed,
    confidence_of_votes,
    is_milder,
    lost_by_all_others,
    nodes_at_fault,
    without_reporters,
)
from gpuwatch.diagnose.incidents.culprits.waiting_exception import waited_for_another, waited_for_something
from gpuwatch.diagnose.model.alert import REPORTED_FOR_JOB, Alert
from gpuwatch.diagnose.model.failure_classes import (
    ABOUT_ANOTHER,
    EXITS,
    MEMORY_KILLS,
    OF_NO_RANK,
    PEER_CONNECTION_ERRORS,
    RENDEZVOUS_STORE,
    RENDEZVOUS_TIMEOUTS,
    end_weight,
    explains,
)
from gpuwatch.diagnose.model.incident import UNKNOWN
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.verdict import LEVELS, Confidence
from gpuwatch.number_text import plural


class CulpritChoice(Struct, frozen=True):
    """The culprit of an incident: rank, node and GPU as far as known, with confidence and reason."""

    rank: int | None = None
    node: str | None = None
    gpu: int | None = None
    confidence: Confidence = "low"
    because: str = ""
    votes: int = 0
    """Number of ranks whose lines name the address of the culprit's node."""


def chosen_culprit(
    found: RootCause, stuck: Hang | None, alerts: Sequence[Alert], where: RankIndex, job: str | None
) -> CulpritChoice:
    """Return the culprit: that of the cause, else of the hang `stuck`, else the ranks that took no part."""
    if found.cause is None:
        return _suspected(stuck, alerts, where, job)
    cause = found.cause
    if cause in PEER_CONNECTION_ERRORS and not found.named:
        choice = _by_address(cause, stuck, alerts, where, job)
    elif cause in ABOUT_ANOTHER and not found.named:
        choice = _away(cause, alerts, where, job)
    elif not found.named and (reported := _reported_of_others(cause, alerts, where)) is not None:
        choice = reported
    else:
        confidence, because = _confidence(cause, found.named, alerts, where, job)
        choice = CulpritChoice(cause.rank, cause.node, cause.gpu, confidence, because)
        if found.named:
            choice = replace(_at(found.named[0], where, job), confidence=confidence, because=because)
        elif cause.rank is None and cause.node is not None and cause not in OF_NO_RANK:
            choice = _rank_of_node(choice, cause, stuck, alerts, where, job)
        if cause.code == UNKNOWN and choice.rank is None:
            silent = _among_silent([alert for alert in alerts if alert.code != UNKNOWN], where, job)
            choice = silent if silent.rank is not None or silent.votes else choice
        joined = rank_of_cause(cause, stuck, alerts, where, job) if choice.rank is None else None
        if joined is not None and not found.named:
            choice = _joined(choice, joined, where, job)
        if choice.node is None and choice.rank is None and cause not in OF_NO_RANK:
            choice = replace(choice, node=node_of_end(cause, alerts))
    if cause.doubt:
        most: Confidence = "low" if cause.refuted else "medium"
        confidence = LEVELS[min(LEVELS.index(choice.confidence), LEVELS.index(most))]
        choice = replace(choice, confidence=confidence, because=f"{choice.because}; but {cause.doubt}")
    for doubt in found.doubts:
        lower = LEVELS[max(0, LEVELS.index(choice.confidence) - 1)]
        choice = replace(choice, confidence=lower, because=f"{choice.because}; but {doubt}")
    return choice


def _confidence(
    cause: Alert, named: Sequence[int], alerts: Sequence[Alert], where: RankIndex, job: str | None
) -> tuple[Confidence, str]:
    if not named and waited_for_something(cause, alerts, where, job):
        return "low", "it waited in vain, for whom its line does not state"
    return confidence_of(cause, named, alerts)


def _reported_of_others(cause: Alert, alerts: Sequence[Alert], where: RankIndex) -> CulpritChoice | None:
    """Return a choice without a place if the cause's rank only reports what befell other ranks; else None."""
    who = "a rank" if cause.rank is None else f"rank {cause.rank}"
    if waited_for_another(cause, alerts, where):
        return CulpritChoice(because=f"{who} waited for another rank or node, which is lost or silent")
    if REPORTED_FOR_JOB in cause.fields:
        because = f"{who} reports it for the job: which rank was first is not known"
        return CulpritChoice(confidence="medium", because=because)
    return None


def where_it_ended(choice: CulpritChoice, alerts: Sequence[Alert]) -> CulpritChoice:
    """Return the choice, on the only node on which its rank's process was seen to end, if there is one.

    A launcher's log holds lines of ranks on all nodes.
    """
    node = None if choice.rank is None else node_of_process(choice.rank, alerts)
    return choice if node in (None, choice.node) else replace(choice, node=node, gpu=None)


def without_refuted_place(
    choice: CulpritChoice, cause: Alert | None, alerts: Sequence[Alert]
) -> CulpritChoice:
    """Return the choice, without node and GPU if the evidence is refuted and of other nodes' logs.

    If several ranks were killed together, the result names only their node: none is known to be first.
    """
    if cause is not None and (together := killed_together(cause, alerts)):
        because = f"{plural(len(together), 'rank')} were killed at the same moment: none is known to be first"
        return CulpritChoice(node=cause.node, confidence="medium", because=because)
    refuted = cause.refuted if cause is not None else all(alert.refuted for alert in alerts)
    stated = alerts if cause is None else [cause]
    if not refuted or choice.node in {proof.node for alert in stated for proof in alert.proof}:
        return choice
    return replace(choice, node=None, gpu=None, confidence="low")


def _joined(
    choice: CulpritChoice, joined: tuple[int, str], where: RankIndex, job: str | None
) -> CulpritChoice:
    """Return the choice with the rank that other lines name for the cause; at most medium confidence.

    `joined`: that rank, and the reason as text.
    """
    rank, because = joined
    there = CulpritChoice(rank) if _is_of_unknown_job(choice, where, job) else _at(rank, where, job)
    if job is None and choice.node is not None and there.node not in (None, "", choice.node):
        # the known rank of that number is of another job
        there = CulpritChoice(rank, choice.node, choice.gpu)
    confidence = LEVELS[min(LEVELS.index(choice.confidence), LEVELS.index("medium"))]
    because = f"{choice.because}; the rank: {because}"
    return replace(there, node=there.node or choice.node, confidence=confidence, because=because)


def _is_of_unknown_job(choice: CulpritChoice, where: RankIndex, job: str | None) -> bool:
    """Return True if the incident of a live fleet has no job, and all ranks on the chosen node have one.

    These ranks are then not of the incident's job.
    """
    return job is None and where.places.live and all(place.job is not None for place in where.on(choice.node))


def _at(rank: int, where: RankIndex, job: str | None) -> CulpritChoice:
    place = where.of(rank, job)
    return CulpritChoice(rank) if place is None else CulpritChoice(rank, place.node or None, place.gpu)


def _rank_of_node(
    choice: CulpritChoice,
    cause: Alert,
    stuck: Hang | None,
    alerts: Sequence[Alert],
    where: RankIndex,
    job: str | None,
) -> CulpritChoice:
    """Return the choice for a fault of a node or GPU, with a rank if exactly one fits."""
    then = cause.first if cause.timed and cause.kernel else None
    here = where.on(choice.node, job, then)
    if not cause.kernel and _is_of_unknown_job(choice, where, job):
        here = [place for place in here if place.job is None]
    there = {place.rank: place for place in here if choice.gpu in (None, place.gpu)}
    suspects = set(stuck.suspects if stuck is not None else ())
    stated = [alert for alert in alerts if not is_milder(alert, cause)]
    ended = {alert.rank for alert in stated if alert in EXITS and end_weight(alert) < 2}
    if cause.kernel and cause in MEMORY_KILLS:  # ranks that still run were not killed
        there = {rank: place for rank, place in there.items() if rank in ended or place.until is not None}
    suffering = {
        alert.rank
        for alert in stated
        if cause.code != alert.code and explains(cause, alert) and alert.node in (None, cause.node)
    }
    of_gpu = set(there) if choice.gpu is not None else set()
    for likely in (ended & set(there), suspects & set(there), of_gpu):
        rank = next(iter(likely), None)
        if len(likely) == 1 and rank is not None:
            gpu = there[rank].gpu
            return replace(choice, rank=rank, gpu=choice.gpu if gpu is None else gpu)
    for likely in (suffering - {None}, suspects):
        rank = next(iter(likely), None)
        place = None if rank is None else where.of(rank, job)
        if len(likely) == 1 and rank is not None and (place is None or place.node in ("", choice.node)):
            return replace(choice, rank=rank)
    if len(there) == 1 and all_placed(where, job):
        return replace(choice, rank=next(iter(there)))
    return choice


def _by_address(
    cause: Alert, stuck: Hang | None, alerts: Sequence[Alert], where: RankIndex, job: str | None
) -> CulpritChoice:
    """Return as culprit the node whose address most lost connections name, not the rank that logged them.

    Without such a node, return the only rank that did not take part, else the cause's place with low
    confidence; no place if more than MAX_NAMED_SUSPECTS ranks report the same. For a lost rendezvous store,
    the node is one that does not report the loss.
    """
    votes = nodes_at_fault([alert for alert in alerts if alert in PEER_CONNECTION_ERRORS], where)
    if cause in RENDEZVOUS_STORE:
        votes, host = without_reporters(votes, cause, alerts, where, job)
        if not votes:
            because = "the launchers of the other nodes lost the rendezvous store, which is on none of them"
            return CulpritChoice(node=host, confidence="low", because=because)
    if votes and (len(votes) == 1 or votes[0][1] > votes[1][1]):
        node, count = votes[0]
        because = f"{count} of the others name its address; the node or its link failed"
        there = [place.rank for place in where.on(node, job)]
        suspects = [rank for rank in (stuck.suspects if stuck is not None else ()) if rank in there]
        rank = suspects[0] if len(suspects) == 1 else there[0] if len(there) == 1 else None
        gpu = None if rank is None else _at(rank, where, job).gpu
        return CulpritChoice(rank, node, gpu, confidence_of_votes(node, count, where), because, count)
    if stuck is not None and len(stuck.suspects) == 1:
        choice = _at(stuck.suspects[0], where, job)
        return replace(choice, confidence="medium", because="the only rank that did not take part")
    same = {alert.rank for alert in alerts if alert.code == cause.code}
    if len(same) > MAX_NAMED_SUSPECTS:
        return CulpritChoice(
            confidence="low",
            because=f"{len(same)} ranks report the same error, and none is clearly the first",
        )
    because = "usually the symptom of a failed peer or a broken link"
    return CulpritChoice(cause.rank, cause.node, cause.gpu, "low", because)


def _away(cause: Alert, alerts: Sequence[Alert], where: RankIndex, job: str | None) -> CulpritChoice:
    """Return as culprit the only known rank or node that reports no wait while all others do.

    Else a choice without a place.
    """
    came = [alert for alert in alerts if alert.code == cause.code]
    nodes = {place.node for place in where.ranks(job) if place.node} - {alert.node for alert in came}
    ranks = where.world(job) - {alert.rank for alert in came}
    if len(ranks) == 1 and any(alert.rank is not None for alert in came):
        choice = _at(next(iter(ranks)), where, job)
        return replace(choice, confidence="medium", because="the only rank that is known and did not wait")
    if len(nodes) == 1:
        return CulpritChoice(
            node=nodes.pop(), confidence="medium", because="the only node that is known and did not wait"
        )
    if cause not in RENDEZVOUS_TIMEOUTS:
        return CulpritChoice(because="the rank that reports it need not be the one that hangs or was lost")
    return CulpritChoice(
        confidence="medium", because="the ranks that entered report missing ranks, but not which"
    )


def _suspected(
    stuck: Hang | None, alerts: Sequence[Alert], where: RankIndex, job: str | None
) -> CulpritChoice:
    """Return the choice without a logged cause: a suspect of the hang `stuck`, else a silent rank."""
    return _among_silent(alerts, where, job) if stuck is None else _among_suspects(stuck, where, job)


def _among_silent(alerts: Sequence[Alert], where: RankIndex, job: str | None) -> CulpritChoice:
    """Return the choice if no timeout shows who waited: the node that others name, or the only silent rank.

    Without either, the choice has no place.
    """
    votes = nodes_at_fault(alerts, where)
    spoke = {alert.rank for alert in alerts if alert.rank is not None and alert.role != "hint"}
    world = where.world(job) | spoke
    if world == spoke and len(spoke) > 1:  # no log was found for a rank whose number is missing
        world = world | set(range(max(spoke) + 1))
    enough = len(spoke) > 1 or any(
        alert.rank in spoke and alert in PEER_CONNECTION_ERRORS for alert in alerts
    )
    only = next(iter(world - spoke)) if len(world - spoke) == 1 and enough else None
    because = f"the only rank of {len(world)} that logged no error: it may have exited without an error"
    if only is not None and where.of(only, job) is None:
        because = f"the only rank of {len(world)} without a log; all others logged errors"
    if votes and (len(votes) == 1 or votes[0][1] > votes[1][1]):
        node, count = votes[0]
        there = None if only is None else _at(only, where, job)
        if there is not None and there.node in (None, "", node):
            because = f"{because}, and the others' lines name its address"
            return replace(there, node=node, because=because, votes=count)
        if count > 1 and lost_by_all_others(node, alerts, where, job):
            because = "all other ranks lost it and name its address; its own ranks logged no lost peer"
            return CulpritChoice(node=node, confidence="medium", because=because, votes=count)
        return CulpritChoice(node=node, because="the others' lines name its address", votes=count)
    if only is not None:
        return replace(_at(only, where, job), confidence="low", because=because)
    return CulpritChoice(because="only affected ranks logged errors")


def _among_suspects(stuck: Hang, where: RankIndex, job: str | None) -> CulpritChoice:
    """Return the choice among the ranks that did not take part in the operation that timed out."""
    suspects = stuck.suspects
    if len(suspects) == 1 and suspects == stuck.idle:
        because = "its GPU was idle while those of all other ranks were busy"
        return replace(_at(suspects[0], where, job), confidence="medium", because=because)
    if suspects == stuck.words and len(stuck.silent) > len(suspects) > 0:
        because = "the only rank that logged work of its own after the step that all ranks logged last"
        return replace(_at(suspects[0], where, job), confidence="low", because=because)
    if stuck.listed:
        choice = _at(suspects[0], where, job) if len(suspects) == 1 else CulpritChoice()
        return replace(choice, confidence="medium", because="the timeout itself lists the absent ranks")
    if len(suspects) == 1:
        rank = suspects[0]
        choice = _at(rank, where, job)
        place, victims = where.of(rank, job), len(stuck.victims)
        unread = "" if place is None or place.logs or not where.reads_logs else "; its log is not read"
        most = victims >= 3 and victims + 1 >= len(stuck.world)
        confidence: Confidence = "medium" if most and not unread else "low"
        return replace(
            choice,
            confidence=confidence,
            because=f"the only rank of {len(stuck.world)} that did not take part{unread}",
        )
    nodes = {place.node for rank in suspects if (place := where.of(rank, job)) is not None}
    if suspects and len(nodes) == 1:
        return CulpritChoice(
            node=nodes.pop(), because=f"{len(suspects)} ranks did not take part, all on this node"
        )
    if suspects:
        return CulpritChoice(
            because=f"{len(suspects)} ranks logged no error, which may also mean that their logs are not read"
        )
    if stuck.whole and len(stuck.victims) >= len(stuck.world):
        return CulpritChoice(because="every rank entered the collective, so suspect a link or a GPU")
    return CulpritChoice(because="the absent rank is unknown: the logs lack some ranks, or their number")
