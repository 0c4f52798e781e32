"""The headline of an incident: which rank failed first, how, when, and how many others followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.incidents.causes.explaining_error import raised_by
from gpuwatch.diagnose.incidents.culprit_rank import killed_together
from gpuwatch.diagnose.incidents.detail import with_detail
from gpuwatch.diagnose.incidents.suspects import MAX_NAMED_SUSPECTS, Hang
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    ABOUT_ANOTHER,
    EXITS,
    GENERIC_EXCEPTIONS,
    LAUNCHER,
    PEER_CONNECTION_ERRORS,
    REBOOTED,
    RENDEZVOUS_TIMEOUTS,
    SCHEDULER,
    TIMEOUTS,
    end_weight,
    of_kinds,
)
from gpuwatch.diagnose.model.incident import UNKNOWN
from gpuwatch.diagnose.model.last_activity import Activity
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.text import clock, collective, job_text, place, ranks_text, when
from gpuwatch.number_text import plural, ranges

NODE_S = 5.0
UNREACHED = of_kinds("peer_unreached")
LOST_A_PEER = PEER_CONNECTION_ERRORS | UNREACHED | TIMEOUTS
ENDS = EXITS | LAUNCHER
ABORT_WEIGHT = 2
"""`end_weight` from which an end usually follows from another failure."""
A_RANK = "a rank "
SUBJECTS = (A_RANK, "a node of the job ", "the job ")
"""Subjects in a title that the headline replaces with the name of the rank or node."""


@dataclass(frozen=True)
class HeadlineFacts:
    """What `sentence` needs: cause, hang, alerts, and the culprit's rank, node and GPU."""

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


def sentence(reported: HeadlineFacts, where: RankIndex, now: float) -> str:
    """Return the headline, such as `rank 17 (gpu-003 GPU 1): Xid 79, ... 12:03:11`. `now`: unix seconds."""
    if reported.cause is None:
        return _unknown(reported, where, now)
    cause = structs.replace(reported.cause, text=with_detail(reported.cause, reported.gpu))
    named = reported.rank is not None or reported.votes > 0
    likely = cause.code == UNKNOWN and cause.rank is None and named
    together = killed_together(cause, reported.alerts) if reported.rank is None else set()
    if together:
        return _killed(reported, cause, together, now)
    head = _head(replace(reported, rank=None, node=None, gpu=None) if likely else reported, cause, where, now)
    tail = _tail(reported, where)
    text = f"{head}; {tail}" if tail else head
    return f"{text}; {_likely(reported, where)}" if likely else text


def _likely(reported: HeadlineFacts, where: RankIndex) -> str:
    who = place(reported.rank, reported.node, reported.gpu)
    if reported.rank is None:
        return f"lines about lost connections name {who}: the likely culprit"
    read = reported.rank is None or where.of(reported.rank, reported.job) is not None
    reason = f"{who} logged no error" if read else f"no log of {who} was found"
    return f"{reason}: the likely culprit"


def followers(reported: HeadlineFacts, where: RankIndex) -> int:
    """Return the number of ranks that only followed; of nodes if no alert is of a known rank."""
    ranks = _following(reported, where)
    if ranks or any(alert.rank is not None for alert in reported.alerts):
        return len(ranks)
    return len({alert.node for alert in reported.alerts if alert.node is not None} - {reported.node})


def _following(reported: HeadlineFacts, where: RankIndex) -> set[int]:
    blamed = set(reported.named) | ({reported.rank} if reported.rank is not None else set())
    cause = reported.cause
    blamed |= set() if cause is None or reported.rank is not None else killed_together(cause, reported.alerts)
    if reported.rank is None and reported.node is not None:
        gone = cause is not None and cause.code in ("node_lost", "slurm.node_failure", "ray.node_dead")
        blamed |= (
            {each.rank for each in where.on(reported.node, reported.job)} if gone or cause is None else set()
        )
    if cause is None and reported.hang is not None:
        blamed |= set(reported.hang.suspects[:MAX_NAMED_SUSPECTS])
    suffering = {
        alert.rank
        for alert in reported.alerts
        if alert.rank is not None
        and alert.role != "hint"
        and alert is not cause
        # a job that falls silent by itself: what its ranks stated while they still stepped does not follow
        and (cause is None or cause.code != HANG or alert.last >= cause.first)
    }
    return suffering - blamed


def _killed(reported: HeadlineFacts, cause: Alert, ranks: set[int], now: float) -> str:
    """Return the headline for ranks that were killed at the same moment."""
    there = f" on {reported.node}" if reported.node else ""
    text = cause.text.removeprefix(A_RANK).removeprefix("process ").replace("was ", "were ", 1)
    return f"ranks {ranges(ranks)}{there} {text} at the same moment {when(cause, now)}"


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
        job = job_text(reported.job)
        text = cause.text.removeprefix(f"{job}: ")
        return f"{who}: {text} since {at}" if who else f"{job} has hung since {at}: {text}"
    if not who:
        return f"{cause.text[:1].upper()}{cause.text[1:]} {at}"
    there = _there(reported, cause, where)
    if len(there) > 1:
        who = f"{reported.node} ({plural(len(there), 'rank')} there, rank {reported.rank} first)"
    if cause.text.startswith(("lost: ", "unreachable: ", "stuck ")):
        return f"{who} {cause.text} {at}"
    text = _with_exception(reported, cause)
    return f"{_stated(who, text, reported.node)} {at}"


def _stated(who: str, text: str, node: str | None) -> str:
    """Return the text with its subject replaced by `who`, or `who: text` if it begins with none of SUBJECTS.

    If `who` is the node, `a rank` becomes `a rank on NODE`.
    """
    subject = next((each for each in SUBJECTS if text.startswith(each)), None)
    if subject is None:
        return f"{who}: {text}"
    name = f"{A_RANK}on {who}" if subject == A_RANK and who == node else who
    return f"{name} {text[len(subject) :]}"


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
    """Return the ranks with the cause's alert within NODE_S if all are on its node, one of several.

    Else none.
    """
    if cause.kernel or reported.rank is None or reported.node is None or reported.named:
        return set()
    same = {
        alert.rank
        for alert in _alike(reported, cause)
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
    if reported.rank != cause.rank and who:
        others = plural(len(same), "rank")
        return f"{who} is the only one that did not take part; {others} report: {cause.text} {at}"
    if len(same) > 1:
        first = place(cause.rank, cause.node, cause.gpu)
        return f"{plural(len(same), 'rank')}, the first of them {first}: {cause.text} {at}"
    return f"{who}: {cause.text} {at}" if who else f"{cause.text[:1].upper()}{cause.text[1:]} {at}"


def _tail(reported: HeadlineFacts, where: RankIndex) -> str:
    """Return text about what happened to the other ranks; "" if there are none."""
    ranks = _following(reported, where)
    if not ranks:
        return ""
    cause = None if reported.votes else reported.cause
    others = cause is not None and cause in ABOUT_ANOTHER
    if cause is not None and others and cause.rank is not None and not reported.named:
        ranks = ranks | {cause.rank}
    same = 0 if cause is None or (reported.rank is None and not others) else _same(reported, cause, ranks)
    followed = (
        ("raised an exception too", _some(reported, ranks, GENERIC_EXCEPTIONS)),
        ("report it" if others else "report the same", same),
        ("then could not connect", _some(reported, ranks, UNREACHED)),
        ("then lost their connections", _some(reported, ranks, PEER_CONNECTION_ERRORS)),
        ("then ended", _some(reported, ranks, ENDS)),
    )
    words, count = next((each for each in followed if each[1] * 2 >= len(ranks)), ("", 0))
    waited = [alert for alert in reported.alerts if alert in TIMEOUTS and alert.rank in ranks]
    if waited and len({alert.rank for alert in waited}) >= count:
        return _timed_out(waited, reported.cause)
    if not words:
        return f"{plural(len(ranks), 'rank')} then followed"
    text = f"{plural(count, 'more rank' if words == 'report the same' else 'rank')} {words}"
    if count > 1:
        return text
    return text.replace("report ", "reports ").replace("their connections", "its connection")


def _timed_out(waited: Sequence[Alert], cause: Alert | None) -> str:
    """Return text about ranks whose collective timed out, and whether before or after the cause."""
    spots = Counter(spot for alert in waited if (spot := collective(alert.fields)))
    spot = f" in {spots.most_common(1)[0][0]}" if spots else ""
    ranks = plural(len({alert.rank for alert in waited}), "rank")
    if cause is None or not cause.timed:
        return f"{ranks} timed out{spot}"
    before = all(alert.timed and alert.first < cause.first for alert in waited)
    return f"{ranks} had timed out{spot}" if before else f"{ranks} then timed out{spot}"


def _same(reported: HeadlineFacts, cause: Alert, ranks: set[int]) -> int:
    """Return the number of these ranks that report the cause too."""
    return len({alert.rank for alert in _alike(reported, cause)} & ranks)


def _alike(reported: HeadlineFacts, cause: Alert) -> list[Alert]:
    """Return the alerts of the cause's class; of ends, those with its status that do not follow from it."""
    alike = [alert for alert in reported.alerts if alert.code == cause.code]
    if cause not in EXITS:
        return alike
    lost = {alert.rank for alert in reported.alerts if alert in LOST_A_PEER}
    may_follow = cause.fields.get("exitcode") == 1 or end_weight(cause) >= ABORT_WEIGHT
    return [
        alert
        for alert in alike
        if alert.id == cause.id
        or (_status(alert) == _status(cause) and not (may_follow and lost & {None, alert.rank}))
    ]


def _status(alert: Alert) -> tuple[object, object]:
    """Return exit code and signal as the line gives them."""
    return alert.fields.get("exitcode"), alert.fields.get("signal")


def _some(reported: HeadlineFacts, ranks: set[int], codes: Container[object]) -> int:
    """Return the number of these ranks with an alert of one of these classes."""
    return len({alert.rank for alert in reported.alerts if alert in codes and alert.rank in ranks})


def _unknown(reported: HeadlineFacts, where: RankIndex, now: float) -> str:
    """Return the headline without a logged cause: what the victims report, and the likely suspects."""
    stuck = reported.hang
    if stuck is None:
        ranks = {alert.rank for alert in reported.alerts if alert.rank is not None and alert.role != "hint"}
        reports = [alert for alert in reported.alerts if alert.role != "hint"] or reported.alerts
        first = min(reports, key=lambda alert: alert.first)
        count = plural(len(ranks), "rank") if ranks else place(None, first.node, first.gpu) or "the job"
        text = f"cause not logged: {count}: {first.text} {when(first, now)}"
        if reported.rank is not None:
            return f"{text}; {_likely(reported, where)}"
        return f"{text}; their lines name {reported.node}" if reported.votes and reported.node else text
    spot = f" in {stuck.where}" if stuck.where else ""
    since = f"from {clock(stuck.began, now)}" if stuck.dated else "(undated)"
    head = f"cause not logged: {_waiting(stuck)}{spot} {since}"
    did = "" if reported.did is None else f"; the last line before: {reported.did.text!r}"
    suspects = stuck.suspects
    if not suspects:
        if stuck.whole and len(stuck.victims) >= len(stuck.world):
            return f"{head}: all of them entered it, so look at the fabric and the GPUs{did}"
        return f"{head}; which rank did not take part is not logged{did}"
    if len(suspects) == 1:
        who = place(reported.rank if reported.rank is not None else suspects[0], reported.node, reported.gpu)
        own = (
            did
            if reported.did is None or reported.did.rank is None
            else f"; its last line: {reported.did.text!r}"
        )
        return f"{head}; {who} {_why(stuck, reported.alerts)}: the likely culprit{own}"
    who = f"ranks {ranges(suspects)}" + (f" (all on {reported.node})" if reported.node else "")
    likely = len(suspects) <= MAX_NAMED_SUSPECTS or reported.node or stuck.listed
    return f"{head}; {who} {_why(stuck, reported.alerts)}" + (": the likely culprits" if likely else "") + did


def _waiting(stuck: Hang) -> str:
    """Return `3 of 4 ranks timed out`, or `3 ranks timed out` if the size of the job is unknown."""
    waited, world = len(stuck.victims), len(stuck.world)
    if not waited:
        return "ranks timed out"
    if stuck.whole or world > waited:
        return f"{waited} of {plural(world, 'rank')} timed out"
    return f"{plural(waited, 'rank')} timed out"


def _why(stuck: Hang, alerts: Iterable[Alert]) -> str:
    if stuck.listed:
        return "did not take part, according to the log's own list"
    if stuck.left_out:
        return "had ended before the launcher ended the others"
    if stuck.odd:
        if not stuck.odd_where:
            return "never entered it"
        return f"{'was' if len(stuck.odd) == 1 else 'were'} in {stuck.odd_where} instead"
    has_logged = any(alert.rank in stuck.suspects and alert.role != "hint" for alert in alerts)
    return "did not report the timeout" if has_logged else "logged no error"
