"""The headline of an incident whose cause is not logged."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.diagnose.incidents.culprits.suspects import MAX_NAMED_SUSPECTS, Hang
from gpuwatch.diagnose.incidents.headline.facts import HeadlineFacts
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.text import clock, place, when
from gpuwatch.number_text import plural, ranges


def unknown_cause(reported: HeadlineFacts, where: RankIndex, now: float) -> str:
    """Return the headline if no cause is logged: what the victims report, and the likely suspects."""
    stuck = reported.hang
    if stuck is None:
        ranks = {alert.rank for alert in reported.alerts if alert.rank is not None and alert.role != "hint"}
        reports = [alert for alert in reported.alerts if alert.role != "hint"] or reported.alerts
        first = min(reports, key=lambda alert: alert.first)
        count = plural(len(ranks), "rank") if ranks else place(None, first.node, first.gpu) or "the job"
        text = f"cause not logged: {count}: {first.text} {when(first, now)}"
        if reported.rank is not None:
            return f"{text}; {likely_culprit(reported, where)}"
        return f"{text}; their lines name {reported.node}" if reported.votes and reported.node else text
    spot = f" in {stuck.where}" if stuck.where else ""
    head = f"cause not logged: {_waiting(stuck)}{spot}{_entered(stuck, now)}"
    did = "" if reported.did is None else f"; the last activity logged: {reported.did.text!r}"
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


def _entered(stuck: Hang, now: float) -> str:
    """Return when the collective was entered; when the timeout was logged if it states no duration."""
    if not stuck.dated:
        return " (undated)"
    if stuck.began >= stuck.printed:
        return f" at {clock(stuck.began, now)}"
    return f", {'entered at' if stuck.where else 'waiting since'} {clock(stuck.began, now)}"


def _why(stuck: Hang, alerts: Iterable[Alert]) -> str:
    if stuck.listed:
        return "did not take part, according to the log's own list"
    if stuck.left_out:
        return "had ended before the launcher ended the others"
    if stuck.idle:
        return f"had {'an idle GPU' if len(stuck.idle) == 1 else 'idle GPUs'} while the others waited"
    if stuck.odd:
        if not stuck.odd_where:
            return "never entered it"
        return f"{'was' if len(stuck.odd) == 1 else 'were'} in {stuck.odd_where} instead"
    has_logged = any(alert.rank in stuck.suspects and alert.role != "hint" for alert in alerts)
    return "did not report the timeout" if has_logged else "logged no error"


def likely_culprit(reported: HeadlineFacts, where: RankIndex) -> str:
    """Return text that names the likely culprit, and the reason."""
    who = place(reported.rank, reported.node, reported.gpu)
    if reported.rank is None:
        return f"lines about lost connections name {who}: the likely culprit"
    read = reported.rank is None or where.of(reported.rank, reported.job) is not None
    reason = f"{who} logged no error" if read else f"no log of {who} was found"
    return f"{reason}: the likely culprit"
