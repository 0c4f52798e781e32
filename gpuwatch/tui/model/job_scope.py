"""One job alone: the part of the fleet, and of what is reported, that belongs to it."""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass, replace

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.training.job_view.rank_placement import RankPlacement
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.tui.model.alert_snapshot import ACTIVE, AlertSnapshot, kinds, standing


@dataclass(frozen=True)
class JobSummary:
    """A job as the list of jobs shows it."""

    job: str
    ranks: int
    nodes: int
    user: str
    running: bool


class JobScope:
    """The job that the screens show alone; None: all of them.

    The part shares the nodes of the whole fleet and goes on with it.
    """

    def __init__(self) -> None:
        self.job: str | None = None
        self._part: Fleet | None = None
        self._whole: Fleet | None = None
        self._reported: tuple[AlertSnapshot, AlertSnapshot] | None = None

    def choose(self, job: str | None) -> None:
        """Show one job, or all."""
        self.job, self._part, self._reported = job, None, None

    def part_of(self, fleet: Fleet, seats: RankPlacement) -> Fleet:
        """The fleet with the job's nodes alone; the same object as long as the nodes are."""
        if self.job is None:
            return fleet
        places = {seat.node for seat in seats.jobs.get(self.job, {}).values()}
        writers = (writer.node for writer in fleet.progress.writers.values() if writer.job == self.job)
        names = places.union(writers)
        nodes = {name: node for name, node in fleet.nodes.items() if name in names}
        if self._part is None or self._whole is not fleet or nodes.keys() != self._part.nodes.keys():
            self._part, self._whole = copy.copy(fleet), fleet
        events = deque((each for each in fleet.events if each.node in nodes), fleet.events.maxlen)
        vars(self._part).update(vars(fleet), nodes=nodes, events=events)
        return self._part

    def reported(self, all_of: AlertSnapshot, nodes: set[str]) -> AlertSnapshot:
        """The alerts and incidents of the job, and those of its nodes that name no job."""
        if self.job is None:
            return all_of
        if self._reported is None or self._reported[0] is not all_of:
            alerts = {name: alert for name, alert in all_of.alerts.items() if self._is_ours(alert, nodes)}
            own = replace(
                all_of,
                alerts=alerts,
                incidents=[each for each in all_of.incidents if self._concerns(each, nodes)],
                firing=sum(standing(alert) in ACTIVE for alert in alerts.values()),
                ended=[each for each in all_of.ended if each.name == self.job],
            )
            criticals, warnings = kinds(alerts.values())
            self._reported = all_of, replace(own, criticals=criticals, warnings=warnings)
        return self._reported[1]

    def _is_ours(self, alert: Alert, nodes: set[str]) -> bool:
        return alert.job == self.job if alert.job is not None else alert.node in nodes

    def _concerns(self, incident: Incident, nodes: set[str]) -> bool:
        if incident.job is not None:
            return incident.job == self.job
        return incident.cause is not None and incident.cause.node in nodes


def summaries(fleet: Fleet, seats: RankPlacement) -> list[JobSummary]:
    """All jobs that are known: those that run first, the largest first."""
    users = {
        process.job: process.user or ""
        for node in fleet.nodes.values()
        for process in node.processes
        if process.job
    }
    found = [
        JobSummary(
            job,
            len(ranks),
            len({seat.node for seat in ranks.values()}),
            users.get(job, ""),
            any(seat.alive for seat in ranks.values()),
        )
        for job, ranks in seats.jobs.items()
        if job is not None
    ]
    return sorted(found, key=lambda each: (not each.running, -each.ranks, each.job))
