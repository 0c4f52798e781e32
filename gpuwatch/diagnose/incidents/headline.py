"""The one sentence of an incident: who failed first, how, when, and how many only follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass

from msgspec import structs

from gpuwatch.diagnose.hang.monitor import CODE as HANG
from gpuwatch.diagnose.incidents.detail import with_detail
from gpuwatch.diagnose.incidents.root_cause import raised_by
from gpuwatch.diagnose.incidents.suspects import MAX_NAMED_SUSPECTS, Hang
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    GATHERINGS,
    LAUNCHER,
    PEER_TROUBLE,
    REBOOTED,
    SCHEDULER,
    TIMEOUTS,
    UNSPECIFIC,
)
from gpuwatch.diagnose.model.last_activity import Activity
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.text import clock, collective, job_text, place, plural, ranges, when

NODE_S = 5.0
UNREACHED = frozenset(
    ("c10d.store_unreachable", "elastic.rdzv_connection", "gloo.connect_failed", "nccl.socket_connect")
)
SUBJECTS = ("a rank ", "a node of the job ", "the job ")
"""How a title may name the one whose name the sentence gives."""


@dataclass(frozen=True)
class HeadlineFacts:
    """What a sentence is made of."""

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
    """What the rank that was waited for logged last."""


def sentence(told: HeadlineFacts, where: RankIndex, now: float) -> str:
    """As `rank 17 (gpu-003 GPU 1): Xid 79, GPU fell off the bus 12:03:11; 63 ranks then timed out in ...`."""
    if told.cause is None:
        return _unknown(told, now)
    cause = structs.replace(told.cause, text=with_detail(told.cause, told.gpu))
    head = _head(told, cause, where, now)
    tail = _tail(told, where)
    return f"{head}; {tail}" if tail else head


def followers(told: HeadlineFacts, where: RankIndex) -> int:
    """Ranks that only follow, each counted once; nodes where no rank is known."""
    ranks = _following(told, where)
    if ranks or any(alert.rank is not None for alert in told.alerts):
        return len(ranks)
    return len({alert.node for alert in told.alerts if alert.node is not None} - {told.node})


def _following(told: HeadlineFacts, where: RankIndex) -> set[int]:
    blamed = set(told.named) | ({told.rank} if told.rank is not None else set())
    cause = told.cause
    if told.rank is None and told.node is not None:
        gone = cause is not None and cause.code in ("node_lost", "slurm.node_failure", "ray.node_dead")
        blamed |= {each.rank for each in where.on(told.node, told.job)} if gone or cause is None else set()
    if cause is None and told.hang is not None:
        blamed |= set(told.hang.suspects[:MAX_NAMED_SUSPECTS])
    suffering = {
        alert.rank
        for alert in told.alerts
        if alert.rank is not None
        and alert.role != "hint"
        and alert is not cause
        # a job that falls silent by itself: what its ranks said while they still stepped does not follow
        and (cause is None or cause.code != HANG or alert.last >= cause.first)
    }
    return suffering - blamed


def _head(told: HeadlineFacts, cause: Alert, where: RankIndex, now: float) -> str:
    at = when(cause, now)
    who = _tasks(told, cause) or place(told.rank, told.node, told.gpu)
    if cause.code in SCHEDULER:
        who = f"job {cause.job or cause.fields['job']}" if cause.job or cause.fields.get("job") else ""
    if cause.code in ("node_lost", REBOOTED):
        here = where.on(told.node, told.job)
        lost = [each.rank for each in here if each.until is None or each.until >= cause.first]
        ranks = f" with {'rank' if len(lost) == 1 else 'ranks'} {ranges(lost)}" if lost else ""
        return f"{told.node}{ranks} {cause.text} {at}"
    if told.named and len(told.named) > 1:
        who = f"ranks {ranges(told.named)}"
    pair = cause.fields.get("peer_rank")
    if pair is not None and not told.named and cause.rank is not None:
        who = f"{who} and rank {pair}"
    if cause.code in GATHERINGS and who:
        return f"{who} did not come: {cause.text} {at}"
    if cause.code in PEER_TROUBLE:
        return _broken(told, cause, who, at)
    if cause.code == HANG:
        job = job_text(told.job)
        text = cause.text.removeprefix(f"{job}: ")
        return f"{who}: {text} since {at}" if who else f"{job} hangs since {at}: {text}"
    if not who:
        return f"{cause.text[:1].upper()}{cause.text[1:]} {at}"
    there = _there(told, cause, where)
    if len(there) > 1:
        who = f"{told.node} ({plural(len(there), 'rank')} there, rank {told.rank} first)"
    if cause.text.startswith(("lost: ", "unreachable: ", "stuck ")):
        return f"{who} {cause.text} {at}"
    text = _with_exception(told, cause)
    said = next((text[len(each) :] for each in SUBJECTS if text.startswith(each)), None)
    return f"{who}: {text} {at}" if said is None else f"{who} {said} {at}"


def _tasks(told: HeadlineFacts, cause: Alert) -> str:
    """`task 2 on cn18`, `tasks 4-7 on cn18`, where Slurm's tasks are not known to be ranks; else empty."""
    tasks = str(cause.fields.get("tasks", ""))
    if not tasks or told.rank is not None or told.node is None or told.node != cause.node:
        return ""
    return f"{'task' if tasks.isdecimal() else 'tasks'} {tasks} on {told.node}"


def _with_exception(told: HeadlineFacts, cause: Alert) -> str:
    """The end of a rank with the exception that it printed before, where it did."""
    raised = raised_by(cause, told.alerts)
    if raised is None or raised.id == cause.id or not raised.fields.get("exception"):
        return cause.text
    return f"{cause.text.partition(' (')[0]} ({raised.text})"


def _there(told: HeadlineFacts, cause: Alert, where: RankIndex) -> set[int]:
    """Ranks that say the same within moments, all on one node of several: it is about the node."""
    if cause.kernel or told.rank is None or told.node is None or told.named:
        return set()
    same = {
        alert.rank
        for alert in told.alerts
        if alert.code == cause.code and alert.rank is not None and abs(alert.first - cause.first) <= NODE_S
    }
    here = {each.rank for each in where.on(told.node, told.job)}
    elsewhere = {alert.node for alert in told.alerts} - {None, told.node}
    return same if same <= here and (elsewhere or len(here) < len(where.ranks(told.job))) else set()


def _broken(told: HeadlineFacts, cause: Alert, who: str, at: str) -> str:
    """Broken connections: the sentence is about whom they lead to, and says who noticed."""
    if told.votes and who:
        verb = "says" if told.votes == 1 else "say"
        return f"{who} or the link to it: {plural(told.votes, 'rank')} {verb} {cause.text} {at}"
    same = {alert.rank for alert in told.alerts if alert.code == cause.code and alert.rank is not None}
    if told.rank != cause.rank and who:
        others = plural(len(same), "rank")
        return f"{who} is the only one that did not take part; {others} had: {cause.text} {at}"
    if len(same) > 1:
        first = place(cause.rank, cause.node, cause.gpu)
        return f"{plural(len(same), 'rank')}, the first of them {first}: {cause.text} {at}"
    return f"{who}: {cause.text} {at}" if who else f"{cause.text[:1].upper()}{cause.text[1:]} {at}"


def _tail(told: HeadlineFacts, where: RankIndex) -> str:
    """What the others did then."""
    ranks = _following(told, where)
    if not ranks:
        return ""
    waited = {alert.rank for alert in told.alerts if alert.code in TIMEOUTS and alert.rank in ranks}
    if waited:
        spots = Counter(
            collective(alert.fields)
            for alert in told.alerts
            if alert.code in TIMEOUTS and alert.rank in ranks and collective(alert.fields)
        )
        where_text = f" in {spots.most_common(1)[0][0]}" if spots else ""
        return f"{plural(len(waited), 'rank')} then timed out{where_text}"
    cause = None if told.votes else told.cause
    for words, count in (
        ("raised an exception too", _some(told, ranks, UNSPECIFIC)),
        (
            "say the same",
            _some(told, ranks, {cause.code} if cause is not None and told.rank is not None else ()),
        ),
        ("then could not connect", _some(told, ranks, UNREACHED)),
        ("then lost their connections", _some(told, ranks, PEER_TROUBLE)),
        ("then ended", _some(told, ranks, {*EXITS, *LAUNCHER})),
    ):
        if count * 2 >= len(ranks):
            more = "more rank" if words.startswith("say") else "rank"
            text = f"{plural(count, more)} {words}"
            return (
                text
                if count > 1
                else text.replace("say ", "says ").replace("their connections", "its connection")
            )
    return f"{plural(len(ranks), 'rank')} then followed"


def _some(told: HeadlineFacts, ranks: set[int], codes: Container[str]) -> int:
    """How many of these ranks say one of these."""
    return len({alert.rank for alert in told.alerts if alert.code in codes and alert.rank in ranks})


def _unknown(told: HeadlineFacts, now: float) -> str:
    """The cause is not logged: what the victims report, and who may have kept them waiting."""
    stuck = told.hang
    if stuck is None:
        ranks = {alert.rank for alert in told.alerts if alert.rank is not None and alert.role != "hint"}
        heard = [alert for alert in told.alerts if alert.role != "hint"] or told.alerts
        first = min(heard, key=lambda alert: alert.first)
        count = plural(len(ranks), "rank") if ranks else place(None, first.node, first.gpu) or "the job"
        text = f"cause not logged: {count}: {first.text} {when(first, now)}"
        if told.rank is not None:
            return f"{text}; {place(told.rank, told.node, told.gpu)} logged nothing: the likely one"
        return f"{text}; their lines name {told.node}" if told.votes and told.node else text
    spot = f" in {stuck.where}" if stuck.where else ""
    since = f"from {clock(stuck.began, now)}" if stuck.dated else "(undated)"
    head = f"cause not logged: {_waiting(stuck)}{spot} {since}"
    did = "" if told.did is None else f"; the last line before: {told.did.text!r}"
    suspects = stuck.suspects
    if not suspects:
        if stuck.whole and len(stuck.victims) >= len(stuck.world):
            return f"{head}: all of them entered it, so look at the fabric and the GPUs{did}"
        return f"{head}; who did not take part is not logged{did}"
    if len(suspects) == 1:
        who = place(told.rank if told.rank is not None else suspects[0], told.node, told.gpu)
        own = did if told.did is None or told.did.rank is None else f"; its last line: {told.did.text!r}"
        return f"{head}; {who} {_why(stuck)}: the likely one{own}"
    who = f"ranks {ranges(suspects)}" + (f" (all on {told.node})" if told.node else "")
    likely = len(suspects) <= MAX_NAMED_SUSPECTS or told.node or stuck.listed
    return f"{head}; {who} {_why(stuck)}" + (": the likely ones" if likely else "") + did


def _waiting(stuck: Hang) -> str:
    """`3 of 4 ranks timed out`; without the total where the size of the job is not known."""
    waited, world = len(stuck.victims), len(stuck.world)
    if not waited:
        return "ranks timed out"
    if stuck.whole or world > waited:
        return f"{waited} of {plural(world, 'rank')} timed out"
    return f"{plural(waited, 'rank')} timed out"


def _why(stuck: Hang) -> str:
    if stuck.listed:
        return "did not come, by the log's own list"
    if stuck.left_out:
        return "had ended before the launcher ended the others"
    if stuck.odd:
        if not stuck.odd_where:
            return "never entered it"
        return f"{'was' if len(stuck.odd) == 1 else 'were'} in {stuck.odd_where} instead"
    return "logged nothing"
