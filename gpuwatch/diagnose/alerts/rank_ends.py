"""Alerts for ranks and launchers whose exit status an agent observed."""

from __future__ import annotations

import signal

from gpuwatch.diagnose.error_outcome.observed_end import LAUNCHER_ENDED, OBSERVED
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.failure_classes import LAUNCHER_KILLED, RulePacks, stated_class
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.text import ranks_text, what
from gpuwatch.rules.model import rule_ids
from gpuwatch.wire import Event

SHELL_SIGNAL = 128
"""The number that a shell adds to a signal's number for its exit status."""
_INTERRUPTED = frozenset((signal.SIGINT, signal.SIGHUP, signal.SIGTERM))
"""Signals that a person, a closed terminal or a launcher sends."""
_BY_SIGNAL = {
    signal.SIGKILL: rule_ids.RANK_KILLED,
    signal.SIGSEGV: rule_ids.RANK_SEGFAULT,
    signal.SIGBUS: rule_ids.RANK_BUS_ERROR,
    signal.SIGABRT: rule_ids.RANK_ABORT,
}


def alert_of_end(
    node: str, event: Event, packs: RulePacks, where: RankIndex, offset_s: float
) -> Alert | None:
    """Return the alert for the end of a rank.

    None: the process is no known rank, or its status is unknown. `offset_s`: the node's clock minus ours.
    """
    at = event.t - offset_s
    place = where.by(node, "pid", event.pid, at=at)
    if place is None or event.code is None:
        return None
    code = class_of(event.code)
    rule = packs.by_id.get(code)
    fields: dict[str, str | int | float] = {"exitcode": event.code, "pid": event.pid or 0}
    title = event.title if rule is None else rule.title
    return Alert(
        id=f"{OBSERVED}{event.pid}@{node}:{event.t:.3f}",
        code=code,
        stated=stated_class(rule),
        severity="info" if rule is None else rule.severity,
        title=title,
        text=what(code, title, fields),
        proof=(Proof("event", event.detail or event.title, at, node=node),),
        role="first" if rule is None else rule.role,
        node=node,
        gpu=place.gpu,
        rank=place.rank,
        rank_from="process",
        job=place.job,
        first=at,
        last=at,
        fields=fields,
    )


def alert_of_launcher(node: str, event: Event, where: RankIndex, offset_s: float) -> Alert | None:
    """Return the alert for a launcher that ended by SIGKILL or by a crash (SIGSEGV, SIGBUS, SIGABRT).

    None: it ended otherwise, also by SIGTERM, SIGINT or SIGHUP (an exit code follows the failure of a rank),
    or no single job of it is known.
    `offset_s`: the node's clock minus ours.
    """
    at = event.t - offset_s
    number = -(event.code or 0)
    places = [place for place in where.on(node, at=at) if place.launcher == event.pid]
    jobs = {place.job for place in places}
    if number not in _BY_SIGNAL or event.pid is None or len(jobs) != 1:
        return None
    how = f"{signal.Signals(number).name}, pid {event.pid}"
    ranks = ranks_text(place.rank for place in places)
    return Alert(
        id=f"{LAUNCHER_ENDED}:{event.pid}@{node}:{event.t:.3f}",
        code=LAUNCHER_KILLED,
        severity="error",
        title="A launcher was killed",
        text=f"the launcher of {ranks} was killed ({how})",
        proof=(Proof("event", event.detail or event.title, at, node=node),),
        role="root",
        node=node,
        job=next(iter(jobs)),
        first=at,
        last=at,
        fields={"pid": event.pid},
    )


def class_of(status: int) -> str:
    """Return the failure class of an exit status; a signal is a negative status or 128 plus its number."""
    number = -status if status < 0 else status - SHELL_SIGNAL
    if number in _INTERRUPTED:
        return rule_ids.RANK_TERMINATED
    return next((code for each, code in _BY_SIGNAL.items() if each == number), rule_ids.RANK_EXIT_ERROR)
