"""Limits the fleet, alerts and incidents to one job, for the screens that show it alone."""

from __future__ import annotations

import copy
from collections import deque

from msgspec import Struct, structs
from msgspec.structs import replace

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.training.job_view.job_members import JobMembers, members_of
from gpuwatch.diagnose.training.job_view.rank_placement import RankPlacement
from gpuwatch.fleet.fleet import Fleet, NodeFinding
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.hosts.plan import Allocation
from gpuwatch.tui.model.alert_snapshot import ACTIVE, AlertSnapshot, kinds, standing
from gpuwatch.wire import Event


class JobSummary(Struct, frozen=True):
    """A job as the list of jobs shows it."""

    job: str
    ranks: int
    nodes: int
    user: str
    running: bool
    allocation: Allocation | None = None
    """The scheduler's allocation; None: it has none."""


class JobScope:
    """The job that the screens show alone, and its part of the fleet; None: all jobs.

    The part shares the nodes of the whole fleet and is updated with it; a node that other jobs use, too, is
    split.
    """

    def __init__(self) -> None:
        self.job: str | None = None
        self._members: JobMembers | None = None
        self._members_for: object = None
        self._part: Fleet | None = None
        self._whole = 0
        """`id()` of the whole fleet."""
        self._findings: tuple[int, dict[tuple[str, float, int], NodeFinding]] | None = None
        """The job's findings, and the version to which they belong."""
        self._nodes: dict[str, tuple[Node, int, Node]] = {}
        """Name -> the whole node and its version, and the job's part of it."""
        self._reported: tuple[AlertSnapshot, JobMembers, AlertSnapshot] | None = None

    def choose(self, job: str | None) -> None:
        """Select the job to show alone; None: all."""
        self.job, self._members, self._members_for, self._reported = job, None, None, None

    def part_of(self, fleet: Fleet, placement: RankPlacement) -> Fleet:
        """Return the job's part of the fleet; without a selected job, the fleet itself.

        It is the same object as long as the job has the same nodes and GPUs.
        """
        if self.job is None:
            return fleet
        members = self._refresh_members(fleet, placement)
        nodes = {name: self._part_of_node(fleet.nodes[name], members) for name in _in_order(fleet, members)}
        if self._part is None:
            self._part = copy.copy(fleet)
        events = (
            each for each in fleet.events if each.node in nodes and _is_of(each.event, each.node, members)
        )
        if self._findings is None or self._findings[0] != fleet.findings_version:
            mine = {key: each for key, each in fleet.findings.items() if each.finding.job in (None, self.job)}
            self._findings = fleet.findings_version, mine
        vars(self._part).update(
            vars(fleet), nodes=nodes, events=deque(events, fleet.events.maxlen), findings=self._findings[1]
        )
        return self._part

    def _refresh_members(self, fleet: Fleet, placement: RankPlacement) -> JobMembers:
        """Return the job's members.

        They are determined again after a node has sent a list of processes, or if the fleet, the placement
        or the reported progress is another one. Other members drop the part made for the previous ones.
        """
        seen = (
            id(fleet),
            id(placement),
            [node.processes_at for node in fleet.nodes.values()],
            fleet.progress.version,
        )
        if self._members is None or seen != self._members_for:
            members, self._members_for = members_of(self.job, fleet, placement), seen
            if members != self._members or id(fleet) != self._whole:
                self._whole = id(fleet)
                self._part, self._nodes, self._findings = None, {}, None
            self._members = members
        return self._members

    def _part_of_node(self, node: Node, members: JobMembers) -> Node:
        """Return the node itself if only this job uses it, else a copy with the job's parts."""
        known = self._nodes.get(node.name)
        if known is None or known[0] is not node or known[1] != node.version:
            kept = known is not None and known[0] is node and known[2] is not node
            part = known[2] if known is not None and kept else copy.copy(node)
            known = self._nodes[node.name] = node, node.version, _narrowed(node, part, members)
        return known[2]

    def reported(self, all_of: AlertSnapshot) -> AlertSnapshot:
        """Return the alerts and incidents of the job, and those of its nodes and GPUs that name no job.

        Its own incidents precede those that name no job.
        Without a selected job, all alerts and incidents.
        """
        members = self._members
        if self.job is None or members is None:
            return all_of
        if self._reported is None or self._reported[0] is not all_of or self._reported[1] is not members:
            alerts = {name: each for name, each in all_of.alerts.items() if _alert_is_of(each, members)}
            incidents = [each for each in all_of.incidents if _incident_is_of(each, members)]
            own = replace(
                all_of,
                alerts=alerts,
                incidents=sorted(incidents, key=lambda each: each.job != members.job),
                firing=sum(standing(alert) in ACTIVE for alert in alerts.values()),
                ended=[each for each in all_of.ended if each.name == self.job],
            )
            criticals, errors, warnings = kinds(alerts.values())
            counted = replace(own, criticals=criticals, errors=errors, warnings=warnings)
            self._reported = all_of, members, counted
        return self._reported[2]

    def own_warning(self, reported: AlertSnapshot) -> Alert | None:
        """Return the worst active alert about the whole job, such as its silence, if it has no incident.

        `reported`: what the method of this name returned. None without a selected job.
        """
        if self.job is None or any(each.job == self.job for each in reported.active):
            return None
        own = {key: each for key, each in reported.alerts.items() if each.job == self.job and not each.node}
        return replace(reported, alerts=own).loudest_outside


def _in_order(fleet: Fleet, members: JobMembers) -> list[str]:
    return [name for name in fleet.nodes if name in members.nodes]


def _narrowed(node: Node, part: Node, members: JobMembers) -> Node:
    """Update `part` to the job's part of `node` and return it; return `node` if all of it is the job's."""
    name = node.name
    gpus = {uuid: gpu for uuid, gpu in node.gpus.items() if members.has_gpu(name, uuid)}
    processes = [process for process in node.processes if members.has_process(name, process)]
    logs = [file for file in node.logs if members.has_file(node, file)]
    hidden = len(node.gpus) - len(gpus)
    events = deque((event for event in node.events if _is_of(event, name, members)), node.events.maxlen)
    parts = (processes, node.processes), (logs, node.logs), (events, node.events)
    if not hidden and all(len(own) == len(known) for own, known in parts):
        return node
    expected = max(0, node.gpus_expected() - hidden)
    vars(part).update(
        vars(node),
        gpus=gpus,
        processes=processes,
        logs=logs,
        events=events,
        last_ranks={place: at for place, at in node.last_ranks.items() if place[0] == members.job},
        spec=replace(node.spec, slots=None),
        hello=None if node.hello is None else structs.replace(node.hello, gpus_expected=expected),
    )
    return part


def _is_of(event: Event, node: str, members: JobMembers) -> bool:
    if event.pid is not None and (node, event.pid) in members.foreign_pids:
        return False
    return event.gpu is None or members.has_gpu(node, event.gpu)


def _alert_is_of(alert: Alert, members: JobMembers) -> bool:
    return alert.job == members.job if alert.job is not None else members.concerns(alert.node, alert.gpu)


def _incident_is_of(incident: Incident, members: JobMembers) -> bool:
    if incident.job is not None:
        return incident.job == members.job
    return incident.cause is not None and _alert_is_of(incident.cause, members)


def summaries(fleet: Fleet, placement: RankPlacement) -> list[JobSummary]:
    """Return all known named jobs: running ones first, then by number of ranks, the largest first."""
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
            len({placed.node for placed in ranks.values()}),
            users.get(job, ""),
            any(placed.alive for placed in ranks.values()),
            fleet.scheduler.allocation(job),
        )
        for job, ranks in placement.jobs.items()
        if job is not None
    ]
    found += [
        JobSummary(job, len(ranks), len(nodes), "", running=False, allocation=fleet.scheduler.allocation(job))
        for job, (ranks, nodes) in _logged(fleet).items()
        if job not in placement.jobs
    ]
    return sorted(found, key=lambda each: (not each.running, -each.ranks, each.job))


def _logged(fleet: Fleet) -> dict[str, tuple[set[int], set[str]]]:
    """Return job -> the ranks and the nodes whose logs have its steps, even if no process of it was seen."""
    found: dict[str, tuple[set[int], set[str]]] = {}
    for writer in fleet.progress.writers.values():
        if writer.job is not None and writer.stepped_at is not None:
            ranks, nodes = found.setdefault(writer.job, (set(), set()))
            nodes.add(writer.node)
            if writer.rank is not None:
                ranks.add(writer.rank)
    return found
