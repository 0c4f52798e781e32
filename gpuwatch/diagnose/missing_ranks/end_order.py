"""Determines which ranks of a job disappeared first, if the whole job ended and no line gives a reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import structs

from gpuwatch.diagnose.missing_ranks.done_ranks import FinishedTraining
from gpuwatch.diagnose.missing_ranks.listed_ranks import ListedRanks, RankKey
from gpuwatch.diagnose.missing_ranks.vanished import (
    EVERY_S,
    names_ranks,
    vanished_alert,
)
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.check_interval import PeriodicWatch
from gpuwatch.diagnose.model.failure_classes import VANISHED
from gpuwatch.diagnose.model.text import clock, ranks_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.number_text import duration

APART_S = 1.0
"""Seconds between two ends below which their order is unknown.

Process lists of two nodes have different delays.
"""
COMPLETE_S = 2 * EVERY_S
"""Seconds after the last rank disappeared in which the last steps and lines of a job arrive."""
ALERT_LIFETIME_S = 3600.0
"""Seconds for which the order of a job's end is kept."""


@dataclass(slots=True)
class ListedRank:
    """A rank of a job as listed by its node (unix seconds on our clock)."""

    rank: int
    node: str
    pid: int
    listed: float
    """When it was last listed."""
    gone_by: float | None = None
    """Time of the first process list without the rank; None: it is still listed."""


class EndOrderWatch(PeriodicWatch):
    """Records when each rank was listed; `alerts` name the node whose ranks disappeared first.

    Such an alert is evidence for an incident without a cause (`incidents.causes.end_order`), not an incident:
    the ranks of many jobs end one after the other normally.
    """

    def __init__(self) -> None:
        super().__init__(EVERY_S)
        self._listed = ListedRanks()
        self._seen: dict[RankKey, ListedRank] = {}

    def _check(self, fleet: Fleet, now: float, wall: float) -> bool:
        listed = {
            name: wall - (now - (node.processes_at or now))
            for name, node in fleet.nodes.items()
            if names_ranks(node, now)
        }
        running = self._listed.update(fleet.nodes[name] for name in listed)
        for (job, rank), members in running.items():
            node, process = next(iter(members.values()))
            self._seen[job, rank] = ListedRank(rank, node.name, process.pid, listed[node.name])
        for key, each in self._seen.items():
            if each.gone_by is None and each.node in listed and key not in running:
                each.gone_by = listed[each.node]
        self.alerts = {name: one for name, one in self.alerts.items() if wall - one.first < ALERT_LIFETIME_S}
        return self._judge(fleet, wall)

    def _judge(self, fleet: Fleet, wall: float) -> bool:
        jobs: dict[str, list[ListedRank]] = defaultdict(list)
        for (job, _), each in self._seen.items():
            jobs[job].append(each)
        changed, training = False, None
        for job, ranks in jobs.items():
            ends = [each.gone_by for each in ranks if each.gone_by is not None]
            if len(ends) < len(ranks) or wall - max(ends) < COMPLETE_S:
                continue
            for each in ranks:
                del self._seen[job, each.rank]
            first = first_gone(ranks)
            training = training or FinishedTraining(fleet)
            if first and not any(each.rank in training.done(job, {each.node}) for each in ranks):
                alert = _alert(job, first, [each for each in ranks if each not in first], wall)
                self.alerts[alert.id] = alert
                changed = True
        return changed


def first_gone(ranks: Iterable[ListedRank]) -> list[ListedRank]:
    """Return the ranks of one node that disappeared while all other ranks of the job were still listed.

    Empty if there are none. `ranks`: all ranks of one job; all have ended.
    """
    ordered = sorted(ranks, key=lambda each: each.gone_by or each.listed)
    for count in range(1, len(ordered)):
        first, others = ordered[:count], ordered[count:]
        if len({each.node for each in first}) > 1:
            return []
        gone_by = max(each.gone_by or each.listed for each in first)
        if gone_by + APART_S <= min(each.listed for each in others):
            return first
    return []


def _alert(job: str, first: list[ListedRank], others: list[ListedRank], wall: float) -> Alert:
    node, at = first[0].node, max(each.listed for each in first)
    gone_by = max(each.gone_by or each.listed for each in first)
    later_s = min(each.listed for each in others) - gone_by
    ranks = sorted(each.rank for each in first)
    order = f"gone by {clock(gone_by, wall)}, the others at least {duration(later_s)} later"
    proof = Proof("value", f"{ranks_text(ranks)} ({node}): {order}", gone_by, node=node)
    name = f"{VANISHED}@{job}:end:{first[0].pid}"
    text = f"{order}; exit status unknown, last listed"
    if len(ranks) > 1:
        text = f"{ranks_text(ranks)} {text}"
    alert = vanished_alert(name, (job, ranks[0]), node, at, text, (proof,))
    alert = structs.replace(alert, fields={"ranks": " ".join(map(str, ranks))})
    # of several ranks of a node that were gone at once none is known to be the first
    return alert if len(ranks) == 1 else structs.replace(alert, rank=None, rank_from=None)
