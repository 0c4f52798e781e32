"""Writes the headline sentence: which rank failed first, how, when, and how many others followed."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs
from msgspec.structs import replace

from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.incidents.causes.explaining_error import raised_by
from gpuwatch.diagnose.incidents.culprits.culprit_rank import killed_together
from gpuwatch.diagnose.incidents.headline.detail import with_detail
from gpuwatch.diagnose.incidents.headline.facts import HeadlineFacts
from gpuwatch.diagnose.incidents.headline.followers import alike, followed
from gpuwatch.diagnose.incidents.headline.unknown_cause import likely_culprit, unknown_cause
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    PEER_CONNECTION_ERRORS,
    REBOOTED,
    RENDEZVOUS_STORE,
    RENDEZVOUS_TIMEOUTS,
    SCHEDULER,
)
from gpuwatch.diagnose.model.incident import UNKNOWN
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.text import job_text, place, ranks_text, when
from gpuwatch.number_text import plural, ranges

NODE_S = 5.0
A_RANK = "a rank "
LOCAL_RANK = "local rank "
SUBJECTS = (A_RANK, "a node of the job ", "the job ")
"""Subjects in a title that the headline replaces with the name of the rank or node."""


def sentence(reported: HeadlineFacts, where: RankIndex, now: float) -> str:
    """Return the headline, such as `rank 17 (gpu-003 GPU 1): Xid 79, ... 12:03:11`. `now`: unix seconds."""
    if reported.cause is None:
        return unknown_cause(reported, where, now)
    explained = _with_reason(reported.cause, reported.alerts)
    cause = structs.replace(explained, text=with_detail(explained, reported.gpu))
    local = cause.fields.get("local_rank")
    if reported.rank is None and isinstance(local, int) and cause.text.startswith(A_RANK):
        cause = structs.replace(cause, text=f"{LOCAL_RANK}{local} {cause.text.removeprefix(A_RANK)}")
    named = reported.rank is not None or reported.votes > 0
    likely = cause.code == UNKNOWN and cause.rank is None and named
    together = killed_together(cause, reported.alerts) if reported.rank is None else set()
    if together:
        return _killed(reported, cause, together, now)
    head = _head(replace(reported, rank=None, node=None, gpu=None) if likely else reported, cause, where, now)
    tail = followed(reported, where)
    text = f"{head}; {tail}" if tail else head
    return f"{text}; {likely_culprit(reported, where)}" if likely else text


def _with_reason(cause: Alert, alerts: Iterable[Alert]) -> Alert:
    """Return the cause with the reason that another line of its class states, where it states none itself.

    `prolog failed` (a script of Slurm) counts as no reason.
    """
    why = cause.fields.get("why")
    if why is not None and not str(why).lower().endswith("prolog failed"):
        return cause
    stated = (alert.fields["why"] for alert in alerts if alert.code == cause.code and "why" in alert.fields)
    reason = next((each for each in stated if each != why), why)
    return cause if reason is None else structs.replace(cause, fields={**cause.fields, "why": reason})


def _killed(reported: HeadlineFacts, cause: Alert, ranks: set[int], now: float) -> str:
    """Return the headline for ranks that were killed at the same moment."""
    there = f" on {reported.node}" if reported.node else ""
    text = cause.text.removeprefix(A_RANK).removeprefix("process ").replace("was ", "were ", 1)
    return f"ranks {ranges(ranks)}{there} {text} at the same moment {when(cause, now)}"


def _hang(cause: Alert, who: str, job: str, at: str) -> str:
    text = cause.text.removeprefix(f"{job}: ")
    if not cause.timed and cause.bound == "undated":
        return f"{who}: {text}" if who else f"{job} hung: {text}"
    return f"{who}: {text} since {at}" if who else f"{job} has hung since {at}: {text}"


def _head(reported: HeadlineFacts, cause: Alert, where: RankIndex, now: float) -> str:
    at = when(cause, now)
    who = _tasks(reported, cause) or place(reported.rank, reported.node, reported.gpu)
    if cause in SCHEDULER:
        who = f"job {cause.job or cause.fields['job']}" if cause.job or cause.fields.get("job") else ""
    if cause.code in ("node_lost", REBOOTED):
        here = where.on(reported.node, reported.job)
        lost = [each.rank for each in here if each.until is None or each.until >= cause.first]
        ranks = f" with {ranks_text(lost)}" if lost else ""
        if cause.code == "node_lost" and cause.state == "resolved":
            return f"{reported.node}{ranks} was lost {at} and answers again"
        return f"{reported.node}{ranks} {cause.text} {at}"
    if reported.named and len(reported.named) > 1:
        who = f"ranks {ranges(reported.named)}"
    pair = cause.fields.get("peer_rank")
    if pair is not None and not reported.named and cause.rank is not None:
        who = f"{who} and rank {pair}"
    if cause in RENDEZVOUS_TIMEOUTS and who:
        return f"{who} did not come: {cause.text} {at}"
    if cause in PEER_CONNECTION_ERRORS:
        return _broken(reported, cause, who, at)
    if cause.code == HANG:
        return _hang(cause, who, job_text(reported.job), at)
    if not who:
        return f"{cause.text[:1].upper()}{cause.text[1:]} {at}"
    there = _there(reported, cause, where)
    if len(there) > 1:
        who = f"{reported.node} ({plural(len(there), 'rank')} there, rank {reported.rank} first)"
    if cause.text.startswith(("lost: ", "unreachable: ", "stuck ")):
        return f"{who} {cause.text} {at}"
    text = _with_exception(reported, cause)
    return f"{_stated(who, text, reported.node)} {at}"


def first_of_several(reported: HeadlineFacts, cause: Alert, where: RankIndex) -> bool:
    """Return True if the culprit's rank is only the first of several that report the same fault.

    Its number then names no culprit. With a time of its own, the first of several that lost a peer does.
    """
    if cause in PEER_CONNECTION_ERRORS:
        same = {each.rank for each in reported.alerts if each.code == cause.code and each.rank is not None}
        alone = reported.votes > 0 or reported.rank != cause.rank or cause in RENDEZVOUS_STORE
        return len(same) > 1 and not alone and not cause.timed
    return len(_there(reported, cause, where)) > 1


def _stated(who: str, text: str, node: str | None) -> str:
    """Return the text with its subject replaced by `who`, or `who: text` if it begins with none of SUBJECTS.

    If `who` is the node, `a rank` becomes `a rank on NODE`.
    """
    subject = next((each for each in SUBJECTS if text.startswith(each)), None)
    if text.startswith(LOCAL_RANK) and who == node and node is not None:
        return _of_local_rank(text, node)
    if subject is None:
        return f"{who}: {text}"
    name = f"{A_RANK}on {who}" if subject == A_RANK and who == node else who
    return f"{name} {text[len(subject) :]}"


def _of_local_rank(text: str, node: str) -> str:
    """Return `local rank 3 of gpu-7 ended with an error` for `local rank 3 ended with an error`."""
    number, _, rest = text.removeprefix(LOCAL_RANK).partition(" ")
    return f"{LOCAL_RANK}{number} of {node} {rest}"


def _tasks(reported: HeadlineFacts, cause: Alert) -> str:
    """Return `task 2 on cn18` or `tasks 4-7 on cn18`.

    "" if the Slurm tasks are unknown or known to be ranks.
    """
    tasks = str(cause.fields.get("tasks", ""))
    if not tasks or reported.rank is not None or reported.node is None or reported.node != cause.node:
        return ""
    return f"{'task' if tasks.isdecimal() else 'tasks'} {tasks} on {reported.node}"


def _with_exception(reported: HeadlineFacts, cause: Alert) -> str:
    """Return the cause's text, with the exception that its rank raised before, if any."""
    raised = raised_by(cause, reported.alerts)
    if raised is None or raised.id == cause.id or not raised.fields.get("exception"):
        return cause.text
    return f"{cause.text.partition(' (')[0]} ({raised.text})"


def _there(reported: HeadlineFacts, cause: Alert, where: RankIndex) -> set[int]:
    """Return the ranks on the culprit's node with the same failure within NODE_S of the cause.

    Empty if ranks elsewhere have it too, or if the job runs on this node alone.
    """
    if cause.kernel or reported.rank is None or reported.node is None or reported.named:
        return set()
    same = {
        alert.rank
        for alert in alike(reported, cause)
        if alert.rank is not None and abs(alert.first - cause.first) <= NODE_S
    }
    here = {each.rank for each in where.on(reported.node, reported.job)}
    elsewhere = {alert.node for alert in reported.alerts} - {None, reported.node}
    return same if same <= here and (elsewhere or len(here) < len(where.ranks(reported.job))) else set()


def _broken(reported: HeadlineFacts, cause: Alert, who: str, at: str) -> str:
    """Return the headline for broken connections: the peer that they lead to, and who reports them."""
    if reported.votes and who:
        verb = "reports" if reported.votes == 1 else "report"
        return f"{who} or the link to it: {plural(reported.votes, 'rank')} {verb} {cause.text} {at}"
    same = {alert.rank for alert in reported.alerts if alert.code == cause.code and alert.rank is not None}
    if cause in RENDEZVOUS_STORE and who:
        return f"{who}: {cause.text} {at}"
    if reported.rank != cause.rank and who:
        others = plural(len(same), "rank")
        return f"{who} is the only one that did not take part; {others} report: {cause.text} {at}"
    if len(same) > 1:
        first = place(cause.rank, cause.node, cause.gpu)
        return f"{plural(len(same), 'rank')}, the first of them {first}: {cause.text} {at}"
    return f"{who}: {cause.text} {at}" if who else f"{cause.text[:1].upper()}{cause.text[1:]} {at}"
