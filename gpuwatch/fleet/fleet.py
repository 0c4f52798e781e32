"""The fleet: the current state of all nodes. No threads, no I/O; the session is its only writer."""

from __future__ import annotations

from collections import deque
from copy import copy

from msgspec import Struct, structs

from gpuwatch.fleet.jobs.host_names import HostNames
from gpuwatch.fleet.jobs.jobs import Jobs
from gpuwatch.fleet.jobs.slurm_tasks import TaskRanks
from gpuwatch.fleet.logs.checkpoints import FleetCheckpoints, names_checkpoint
from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.fleet.logs.node_shares import NodeShares
from gpuwatch.fleet.logs.progress import FleetProgress
from gpuwatch.fleet.logs.shared_findings import FindingKey, SharedFindings, Shown
from gpuwatch.fleet.logs.shared_identities import SharedIdentities
from gpuwatch.fleet.node_limits import NodeLimits
from gpuwatch.fleet.nodes.last_ranks import LastRanks
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.fleet.nodes.node_frames import reboot_event, take_hello, take_sample
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.fleet.servers import FleetServers
from gpuwatch.hosts.plan import Plan
from gpuwatch.hosts.slurm.scheduler_facts import SchedulerFacts, facts_at_start
from gpuwatch.link.stream.inbox import Arrival, ClockReading, Content, LinkStatus, Refused
from gpuwatch.rules.built_in import built_in_dialects
from gpuwatch.rules.load import Packs
from gpuwatch.wire import (
    SLURM_TASK,
    Bye,
    Event,
    Finding,
    Hello,
    Lines,
    LogFile,
    Logs,
    Process,
    Progress,
    Ranks,
    Reply,
    Sample,
)

KEPT_EVENTS = 2_000
MAX_FINDINGS = 20_000
"""Maximum number of findings kept for the whole fleet."""
MAX_CHARACTERS = 8_000_000
"""Maximum number of characters in the lines, fields and names of one node's findings."""


class NodeEvent(Struct, frozen=True):
    """An event, the node on which it happened, and when it was received (our monotonic clock)."""

    node: str
    at: float
    event: Event


class NodeFinding(Struct, frozen=True):
    """A finding of a rule on a node, as last reported, and when it was received (our monotonic clock)."""

    node: str
    since: float
    """The start of the agent that reported the finding (`Node.agent_since`).

    A restarted agent numbers its findings from the beginning.
    """
    at: float
    finding: Finding


class Fleet:
    """The state of all nodes, by name, in the order of the plan. `version` increases with every change."""

    def __init__(self, plan: Plan, packs: Packs | None = None) -> None:
        """Create the fleet of a plan; `packs` None: the built-in ones."""
        self.plan = plan
        self.dialects = built_in_dialects() if packs is None else packs.dialect_by_id
        self.stated_classes = {} if packs is None else packs.stated_classes
        self.interval_s = plan.interval_s
        """Seconds between samples that the agents are asked for: the plan's, or longer on a busy machine."""
        self.nodes: dict[str, Node] = {spec.name: Node(spec, plan.interval_s) for spec in plan.nodes}
        self.events: deque[NodeEvent] = deque(maxlen=KEPT_EVENTS)
        self.findings: dict[tuple[str, float, int], NodeFinding] = {}
        """Findings by node, agent start and finding id; in the order in which they were first reported."""
        self._shared = SharedFindings(self.nodes)
        self._shares: NodeShares[FindingKey] = NodeShares(MAX_FINDINGS, MAX_CHARACTERS)
        self.findings_version = 0
        self.logs_version = 0
        """Increases when a node sends a list of log files, is added or removed, or its link changes."""
        self.streams: dict[tuple[str, int], LogStream] = {}
        """Open requests for log lines, by node and request id; added by the session, removed when done."""
        self.asked: dict[tuple[str, int], Asked] = {}
        """Requests that are not answered yet; the session adds them, and their answers remove them."""
        self.progress = FleetProgress()
        """The training progress that logs report."""
        self.servers = FleetServers(self.dialects)
        """Inference servers, as their metrics or logs report them."""
        self.checkpoints = FleetCheckpoints()
        """The checkpoints that ranks reported as written or begun."""
        self.jobs = Jobs()
        """Names the job of every process, log file, finding and step; every `job` field holds such a name."""
        self._host_names = HostNames(self.nodes)
        self._last_ranks, self._task_ranks = LastRanks(), TaskRanks()
        self._jobless: dict[str, set[FindingKey]] = {}
        """Node -> its findings whose job is not known yet."""
        self._listed: dict[str, list[LogFile]] = {}
        """Node -> its log files as its agent reported them."""
        self._limits = NodeLimits()
        self.identities = SharedIdentities()
        self.version = 0
        self.scheduler = SchedulerFacts()
        """The newest report of the scheduler; at first that of the plan."""
        self.take_scheduler(facts_at_start(plan))

    def after(self, earlier: Fleet) -> Fleet:
        """Continue the version numbers of an earlier fleet, which this one replaces; return this fleet."""
        self.version, self.progress.version = earlier.version + 1, earlier.progress.version + 1
        self.findings_version = earlier.findings_version + 1
        self.logs_version = earlier.logs_version + 1
        for name, node in self.nodes.items():
            node.version = earlier.nodes[name].version + 1
        return self

    def apply(self, arrival: Arrival) -> None:
        """Update the fleet by a message of a known node. Raises TooManyError: it is beyond `NodeLimits`."""
        node = self.nodes.get(arrival.node)
        if node is None:
            return
        self._take(arrival.what, node, arrival.at)
        if not isinstance(arrival.what, Progress):  # it has a version of its own
            node.version += 1
        self.version += 1

    def take_scheduler(self, facts: SchedulerFacts) -> None:
        """Store a scheduler's report in the fleet and at each node; None at those that it does not name."""
        self.scheduler = facts
        for name, node in self.nodes.items():
            standing = facts.nodes.get(name)
            if standing != node.standing:
                node.standing = standing
                node.version += 1
                self.version += 1

    def gpus(self) -> list[Gpu]:
        """Return every GPU, node by node in the plan's order."""
        return [gpu for node in self.nodes.values() for gpu in node.gpu_list()]

    def _take(self, what: Content, node: Node, at: float) -> None:
        match what:
            case LinkStatus():
                node.link, node.link_at = what, at
                self.logs_version += 1
                if what.phase == "live":
                    node.agent_since, node.logs_complete = at, False
                return
            case ClockReading():
                node.clock = what
                return
            case Refused():
                node.refused += what.count
                node.refused_reason, node.refused_at = what.reason, at
                return
        node.received_at = at
        match what:
            case Sample():
                take_sample(node, what, at)
            case Hello():
                self._take_hello(node, what, at)
            case Ranks():
                self._limits.take_processes(node.name, what.processes, at)
                node.processes_partial, node.processes_at = what.incomplete, at
                self._take_processes(node, what.processes)
            case Event():
                self._take_event(node, what, at)
            case Bye():
                node.bye = what.reason
            case Finding() | Lines() | Logs() | Progress() | Reply():
                self._take_log(what, node, at)

    def _take_event(self, node: Node, event: Event, at: float) -> None:
        node.events.append(event)
        self.events.append(NodeEvent(node.name, at, event))

    def _take_hello(self, node: Node, hello: Hello, at: float) -> None:
        if reboot := reboot_event(node, hello):
            self._take_event(node, reboot, at)
        self._limits.check_gpus(node, hello)
        before = None if node.hello is None else node.hello.host
        take_hello(node, hello)
        self._host_names.take(node, before)

    def _take_log(self, what: Finding | Lines | Logs | Progress | Reply, node: Node, at: float) -> None:
        match what:
            case Finding():
                self._take_finding(node, what, at)
            case Logs():
                self._listed[node.name] = what.files
                for other in self.identities.take(node.name, what):
                    self._name_files(self.nodes[other])
                node.logs_truncated, node.logs_at, node.logs_complete = what.truncated, at, what.complete
                node.logs_listed_at = what.t
                node.log_misses = what.misses
                node.shared_folders, node.search_cut = what.shared, what.search_cut
                before = node.logs
                self._name_files(node)
                self.checkpoints.take_files(node.name, before, node.logs)
                self.logs_version += 1
            case Progress():
                self._limits.take_progress(node.name, what, at)
                job = self.jobs.of_line(node.name, what.file, what.job)
                reported = what if job == what.job else structs.replace(what, job=job)
                if what.rank is None and what.index_of == SLURM_TASK and self._task_ranks.are_ranks(job):
                    reported = structs.replace(
                        reported, rank=what.index, rank_from="index", index=None, index_of=None
                    )
                self.servers.take_logged(self.progress.take(node.name, reported, what.t, at), reported, at)
            case Lines() | Reply():
                self._take_answer(node.name, what)

    def _take_answer(self, node: str, what: Lines | Reply) -> None:
        stream = self.streams.get((node, what.id))
        if stream is None:
            asked = self.asked.pop((node, what.id), None)
            if asked is not None and isinstance(what, Reply):
                asked.error, asked.data = what.error, None if what.error else what.data or {}
            return
        if isinstance(what, Lines):
            stream.take(what)
        elif what.error is not None:
            stream.fail(what.error)
        if stream.done:
            del self.streams[node, what.id]

    def _take_processes(self, node: Node, processes: list[Process]) -> None:
        host = node.own_host or node.name
        machine = None if node.hello is None else node.hello.boot_id
        changed, renamed = self.jobs.take(node.name, host, processes, machine)
        node.take_processes(self.jobs.named(node.name, processes))
        self._last_ranks.take(node)
        self._task_ranks.take(node.processes)
        if changed:
            self._name_files(node)
            self._look_for_rivals(node)
        self._reconsider(renamed)
        for other in (self.nodes[name] for name in renamed):
            other.processes = self.jobs.named(other.name, other.processes)
            self._last_ranks.take(other)
            other.version += 1
            self._name_files(other)

    def _look_for_rivals(self, node: Node) -> None:
        """Update which ranks this node and another one claim for the same job, on all nodes concerned."""
        node.crowded_ranks = self.jobs.crowded(node.name)
        for name, rivals in self.jobs.rivals(node.name).items():
            self.nodes[name].rivals = rivals

    def _name_files(self, node: Node) -> None:
        """Assign the node's log files to their jobs, and the findings in them that had no job yet."""
        listed = self.identities.files(node.name, self._listed.get(node.name, []))
        node.logs = self.jobs.files(node.name, listed)
        renamed = self.jobs.take_renamed()
        self._reconsider(renamed)
        for name in renamed:
            self._name_files(self.nodes[name])
        waiting = self._jobless.get(node.name, set())
        for key in list(waiting):
            known = self.findings.get(key)
            job = None if known is None else self._job_of(node, known.finding)
            if known is not None and job != known.finding.job:
                self.findings[key] = structs.replace(known, finding=structs.replace(known.finding, job=job))
                self.findings_version += 1
            if known is None or job is not None:
                waiting.discard(key)

    def _reconsider(self, nodes: set[str]) -> None:
        """Mark the findings of these nodes, so that `_name_files` determines their jobs again."""
        for key in (key for key in self.findings if key[0] in nodes) if nodes else ():
            self._jobless.setdefault(key[0], set()).add(key)

    def _job_of(self, node: Node, finding: Finding) -> str | None:
        return self.jobs.of_line(node.name, finding.file, finding.job)

    def _take_finding(self, node: Node, finding: Finding, at: float) -> None:
        self._limits.take_finding(node.name, finding, at)
        key = (node.name, node.agent_since, finding.id)
        job = self._job_of(node, finding)
        if names_checkpoint(finding):
            self.checkpoints.take(node.name, finding, job)
            return
        if job != finding.job:
            finding = structs.replace(finding, job=job)
        self._show(self._shared.take(key, node, finding, self._known), at)
        for _, surplus in list(self._shares.surplus(node.name, key, _characters(finding))):
            self._show({**self._shared.drop(surplus), surplus: None}, at)

    def _known(self, key: FindingKey) -> Finding | None:
        known = self.findings.get(key)
        return None if known is None else known.finding

    def _show(self, shown: Shown, at: float) -> None:
        """Store findings under their keys; a finding of None removes the key."""
        for key, stated in shown.items():
            known = self.findings.get(key)
            if stated is None:
                self.findings_version += self.findings.pop(key, None) is not None
                continue
            job = stated.job if stated.job is not None or known is None else known.finding.job
            finding = stated if job == stated.job else structs.replace(stated, job=job)
            if known is None or known.finding != finding:
                if job is None:
                    self._jobless.setdefault(key[0], set()).add(key)
                self.findings[key] = NodeFinding(key[0], key[1], at, finding)
                self.findings_version += 1

    def only(self, name: str) -> Fleet:
        """Return a fleet that has the data of one node only; it shares the parts with this one."""
        part = copy(self)
        part.nodes = {name: self.nodes[name]}
        part.findings = {key: found for key, found in self.findings.items() if key[0] == name}
        part.events = deque(event for event in self.events if event.node == name)
        part.progress = self.progress.only(name)
        return part

    def forget(self, name: str) -> None:
        """Drop the data of a node, except its link, its checkpoints and the inference servers in its logs."""
        alone, old = self.only(name), self.nodes[name]
        node = self.nodes[name] = Node(old.spec, old.interval_s, old.link, old.link_at)
        node.version, node.agent_since = old.version + 1, old.agent_since
        self._show(self._shared.forget(name), self.nodes[name].received_at or 0.0)
        for key in alone.findings:
            self.findings.pop(key, None)
        self._shares.forget(name)
        for event in alone.events:
            self.events.remove(event)
        self.progress.forget(name)
        for known in (self._jobless, self._listed):
            known.pop(name, None)
        self._take_processes(node, [])
        self.findings_version += 1
        self.logs_version += 1
        self.version += 1


def _characters(finding: Finding) -> int:
    texts = [*finding.lines, finding.file, finding.rule, *finding.fields]
    texts += [value for value in finding.fields.values() if isinstance(value, str)]
    return sum(map(len, texts))
