"""The timeline of an incident: similar events on several ranks at about the same time are one entry."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.diagnose.incidents.culprits.suspects import Hang
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Moment
from gpuwatch.diagnose.model.text import collective
from gpuwatch.diagnose.model.timing import PRECISE_WITHIN_S
from gpuwatch.number_text import plural
from gpuwatch.wire import TimeBound

FOLD_S = 60.0
"""Seconds within which the watchdogs of one hang fire."""


def timeline(alerts: Iterable[Alert], hang: Hang | None) -> tuple[Moment, ...]:
    """Return the timeline's entries, ordered by time.

    Like alerts at most FOLD_S apart share an entry. The start of a hang has an entry of its own, long before
    any line is printed.
    """
    folded: dict[tuple[object, ...], list[list[Alert]]] = {}
    ordered = sorted(alerts, key=lambda each: (_placed_at(each), each.id))
    spots = _spots(ordered)
    for alert in ordered:
        spot = spots.get(collective(alert.fields), "") if alert.role != "echo" else ""
        runs = folded.setdefault((alert.code, alert.role, spot, _fold_key(alert)), [])
        if runs and _placed_at(alert) - _placed_at(runs[-1][-1]) <= FOLD_S:
            runs[-1].append(alert)
        else:
            runs.append([alert])
    moments = [_moment(run) for runs in folded.values() for run in runs]
    if hang is not None and hang.began < hang.printed:
        where = hang.where or "a collective"
        entered = plural(len(hang.victims), "rank") if hang.victims else "some ranks"
        text = f"{entered} entered {where}, never completed"
        at = hang.began if hang.dated else 0.0
        moments.append(Moment(at, at, text, "hint", "hang", None, hang.victims, len(hang.victims) or 1))
    return tuple(sorted(moments, key=lambda moment: (moment.at, moment.code)))


def _placed_at(alert: Alert) -> float:
    """Return the time at which the timeline shows an alert (unix seconds).

    A line without a timestamp stands at the dated one above it (`not_before`), if there is one.
    """
    if not alert.timed and alert.bound == "after" and alert.not_before is not None:
        return alert.not_before
    return alert.first


def _spots(alerts: Iterable[Alert]) -> dict[str, str]:
    """Return collective as a line names it -> its fullest name: `seq 7` -> `ALLREDUCE seq 7`."""
    named = {collective(alert.fields) for alert in alerts}
    found = {}
    for spot in named:
        fuller = [other for other in named if other != spot and spot in ("", *other.split(" ", 1))]
        found[spot] = fuller[0] if len(fuller) == 1 else spot
    return found


def _fold_key(alert: Alert) -> str | None:
    """Return the key by which alerts of one class are merged: node and GPU, or None for those of ranks.

    Node and GPU are for alerts of the kernel or without a rank. Hints and echoes of programs have None, too:
    they are merged across nodes.
    """
    of_device = alert.kernel or (alert.rank is None and alert.role != "echo")
    alone = alert.role != "hint" and of_device
    return f"{alert.node} {alert.gpu}" if alone else None


def _bound(alert: Alert) -> TimeBound | None:
    """Return how the shown time bounds an alert's time; None: the shown time is exact to a minute."""
    precise = alert.not_before is not None and alert.first - alert.not_before <= PRECISE_WITHIN_S
    return None if alert.timed or (precise and alert.bound == "before") else alert.bound


def _moment(run: list[Alert]) -> Moment:
    ranks = tuple(sorted({alert.rank for alert in run if alert.rank is not None}))
    nodes = {alert.node for alert in run}
    of_nodes = len(nodes) > 1 and any(alert.rank is None for alert in run)
    what = _shared(_stated(max(run, key=lambda alert: len(alert.fields)), alone=len(run) == 1), run)
    dated = any(alert.timed or alert.bound != "undated" for alert in run)
    return Moment(
        at=_placed_at(run[0]) if dated else 0.0,
        until=max(alert.last for alert in run) if dated else 0.0,
        what=f"{what} on {len(nodes)} nodes" if of_nodes else what,
        role=run[0].role,
        code=run[0].code,
        node=run[0].node if len(nodes) == 1 else None,
        ranks=() if of_nodes else ranks,
        count=len(ranks) if len(ranks) > 1 and not of_nodes else sum(alert.count for alert in run),
        alert=run[0].id,
        bound=_bound(run[0]),
    )


def _stated(alert: Alert, *, alone: bool) -> str:
    """Return an alert's text at its time, with its doubt only if it is refuted and not merged with others."""
    refuted, text = alone and alert.refuted, alert.first_text or alert.text
    return text if refuted or not alert.doubt else text.removesuffix(f"; {alert.doubt}")


def _shared(text: str, run: list[Alert]) -> str:
    """Return a text without the clauses behind its first one that are not those of all alerts of an entry."""
    first, *others = text.split("; ")
    shared = [each for each in others if all(each in (alert.first_text or alert.text) for alert in run)]
    return "; ".join((first, *shared))
