"""Alerts from findings and events of all nodes, placed on ranks and GPUs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from msgspec import structs

from gpuwatch.diagnose.alerts.deduplication.deduplicator import Deduplicator
from gpuwatch.diagnose.alerts.from_events import alert_of_event
from gpuwatch.diagnose.alerts.from_findings import alert_of, merge_repeat
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding
from gpuwatch.diagnose.alerts.placement.stated_host import stated_host
from gpuwatch.diagnose.alerts.stated_signs import as_stated
from gpuwatch.diagnose.error_outcome.observed_end import RANK_ENDED
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import HARMLESS, LAUNCHES_RANKS, RulePacks, stated_class
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.timing import APART_S, Resumed
from gpuwatch.diagnose.sources.failure_table import RankHosts
from gpuwatch.diagnose.sources.log_writers import LogWriters, ReadFile
from gpuwatch.fleet.fleet import Fleet, NodeEvent, NodeFinding
from gpuwatch.fleet.jobs.ended_files import is_ended
from gpuwatch.fleet.jobs.places import Places
from gpuwatch.fleet.jobs.rank_places import places_of, with_hosts
from gpuwatch.fleet.jobs.slurm_tasks import SlurmTasks
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.rules.model.failure_class import FailureClass
from gpuwatch.wire import Finding

MAX_ALERTS = 20_000
MAX_FINDINGS_PER_UPDATE = 1000
"""Most findings that one update processes; the rest of a flood follows with the next updates."""
MAX_UNPLACED = 512
PLACES_S = 2.0
"""Shortest interval between two placements of the ranks (seconds)."""

Source = NodeFinding | NodeEvent


class ReportedAlerts:
    """Keeps the alerts of findings and events up to date, and passes each change to the deduplicator."""

    def __init__(self, packs: RulePacks, joiner: Deduplicator) -> None:
        self.places = Places()
        self.where = RankIndex(self.places)
        self._packs = packs
        self._joiner = joiner
        self._alerts: dict[str, Alert] = {}
        self._sources: dict[str, Source] = {}
        self._writers = LogWriters()
        self._findings: dict[tuple[str, float, int], NodeFinding] = {}
        self._untaken: dict[tuple[str, float, int], NodeFinding] = {}
        self._findings_version = -1
        self._last_event: NodeEvent | None = None
        self._unplaced: deque[NodeEvent] = deque(maxlen=MAX_UNPLACED)
        """Events about ended ranks whose place is not known yet."""
        self._fleet_version = self._logs_version = -1
        self._processes: dict[str, tuple[float | None, int]] = {}
        """Node -> when its processes were listed, and the number of its known GPUs."""
        self._ended_files: dict[tuple[str, str], frozenset[int]] = {}
        """(node, log of an ended job) -> the ranks whose lines the log contains."""
        self._ended_versions = (-1, -1, 0)
        self._prefixed: set[tuple[str, str, int]] = set()
        """(node, log file, rank) of findings whose lines begin with the rank."""
        self._tasks = SlurmTasks()
        self._hosts = RankHosts()
        self._began: dict[tuple[str, str], float] = {}
        """(node, log file of an ended job) -> when its first step was logged (unix seconds)."""
        self._named_version = 0
        """Version of `_tasks` and `_hosts` when the ranks were last placed."""
        self._placed_at: float | None = None

    @property
    def behind(self) -> bool:
        """Return True if findings, or new places of ranks, wait for the next update."""
        return bool(self._untaken) or self._has_new_ranks

    @property
    def _has_new_ranks(self) -> bool:
        """Return True if findings revealed Slurm tasks, ranks' hosts, or ranks in the log of an ended job."""
        named = self._tasks.version + self._hosts.version
        return named != self._named_version or len(self._prefixed) != self._ended_versions[-1]

    def update(self, fleet: Fleet, now: float, wall: float) -> bool:
        """Process what is new in the fleet; return True if an alert may have changed.

        Args:
            fleet: All that is known now.
            now: Monotonic seconds, the fleet's own clock.
            wall: Unix seconds.
        """
        changed = False
        if fleet.version != self._fleet_version or self._has_new_ranks:
            self._fleet_version = fleet.version
            self._tasks.note_steps((each.job, each.tasks) for each in fleet.progress.writers.values())
            changed |= self._take_places(fleet, now, wall)
            changed |= self._place_again(self._writers.take(fleet), fleet)
            self._look_for_findings(fleet)
            changed |= self._take_events(fleet)
        return self._take_findings(fleet) or changed

    def take_resumed(self, resumed: Resumed) -> None:
        """Store when each job resumed training, in the deduplicator."""
        self._joiner.take_resumed(resumed)

    def settle(self, wall: float, lasts_s: Callable[[str | None], float]) -> bool:
        """Resolve alerts that were not repeated for `lasts_s(job)` seconds; return True if there were any.

        `wall`: unix seconds.
        """
        old = [a for a in self._alerts.values() if a.state == "firing" and wall - a.last > lasts_s(a.job)]
        for alert in old:
            self._keep(structs.replace(alert, state="resolved"))
        return bool(old)

    def _take_places(self, fleet: Fleet, now: float, wall: float) -> bool:
        other_ranks = self._has_new_ranks or self._has_new_files(fleet)
        if not other_ranks and self._placed_at is not None and now - self._placed_at < PLACES_S:
            return False
        listed = {name: (node.processes_at, len(node.gpus)) for name, node in fleet.nodes.items()}
        if not self._take_ended_files(fleet, wall - now) and not other_ranks and listed == self._processes:
            return False
        self._processes, self._placed_at = listed, now
        self._named_version = self._tasks.version + self._hosts.version
        nodes = list(fleet.nodes.values())
        logged, tasks = self._ended_files, self._tasks.ranks()
        places = places_of(nodes, self.places, wall, logged, tasks, self._began)
        places = with_hosts(places, self._hosts.of_job)
        if places == self.places:
            return False
        self.places, self.where = places, RankIndex(places)
        unplaced, self._unplaced = self._unplaced, deque(maxlen=MAX_UNPLACED)
        for event in unplaced:
            self._take(event, fleet.nodes[event.node])
        for name, source in self._sources.items():
            alert = self._alerts[name]
            if None in (alert.rank, alert.node, alert.gpu, alert.job):
                self._take(source, fleet.nodes[source.node])
        return bool(self._sources)  # which node is trusted depends on where the ranks run

    def _has_new_files(self, fleet: Fleet) -> bool:
        """Return True if a file without a known job is listed that the places do not cover yet.

        False while the lists of files are those of the last call. Without new places the file's lines would
        be given to the only job of its node.
        """
        if fleet.logs_version == self._logs_version:
            return False
        self._logs_version = fleet.logs_version
        known = self.places.loose
        return any(
            file.job is None and file.source != "kernel" and (node.name, file.path) not in known
            for node in fleet.nodes.values()
            for file in node.logs
        )

    def _take_ended_files(self, fleet: Fleet, offset_s: float) -> bool:
        """Collect the logs of ended jobs and the ranks in them; return True if these differ from before.

        `offset_s`: unix seconds minus the fleet's clock.
        """
        versions = fleet.logs_version, fleet.progress.version, len(self._prefixed)
        if versions == self._ended_versions:
            return False
        self._ended_versions, before = versions, self._ended_files
        ended = {
            (node.name, file.path): set(file.ranks)
            for node in fleet.nodes.values()
            for file in node.logs
            if is_ended(file)
        }
        began: dict[tuple[str, str], float] = {}
        for writer in fleet.progress.writers.values() if ended else ():
            key = writer.node, writer.file
            if key not in ended:
                continue
            if writer.rank is not None:
                ended[key].add(writer.rank)
            first = writer.first_step_at
            if first is not None:
                began[key] = min(first + offset_s, began.get(key, math.inf))
        for node_name, path, rank in self._prefixed:
            if (node_name, path) in ended:
                ended[node_name, path].add(rank)
        self._began = began
        self._ended_files = {file: frozenset(ranks) for file, ranks in ended.items()}
        return self._ended_files != before

    def _look_for_findings(self, fleet: Fleet) -> None:
        if fleet.findings_version == self._findings_version:
            return
        self._findings_version = fleet.findings_version
        known = self._findings
        self._untaken.update(
            (key, found) for key, found in fleet.findings.items() if known.get(key) is not found
        )
        for key in self._untaken.keys() - fleet.findings.keys():
            del self._untaken[key]
        if known.keys() - fleet.findings.keys():
            self._findings = {key: found for key, found in known.items() if key in fleet.findings}
            gone = [name for name, source in self._sources.items() if _is_dropped(source, fleet)]
            self._drop(gone)

    def _take_findings(self, fleet: Fleet) -> bool:
        new = list(islice(self._untaken, MAX_FINDINGS_PER_UPDATE))
        for key in new:
            found = self._findings[key] = self._untaken.pop(key)
            self._take(found, fleet.nodes[found.node])
            stated = self._stated(found.finding)
            self._tasks.note(found.finding, launched=LAUNCHES_RANKS.has(found.finding.rule, stated))
            self._hosts.note(found.finding, stated)
            file, rank = (found.node, found.finding.file), found.finding.rank
            if rank is not None and found.finding.rank_from == "line" and file in self._ended_files:
                self._prefixed.add((*file, rank))
            host = stated_host(found.finding, stated)
            if self._writers.note(found.node, found.finding, host, self.where):
                self._place_again({(found.node, found.finding.file)}, fleet)
        return bool(new)

    def _place_again(self, files: set[ReadFile], fleet: Fleet) -> bool:
        """Determine the places of all findings of these files again, since their writers changed.

        Returns True if there are any findings.
        """
        changed = False
        for source in list(self._sources.values()) if files else ():
            if isinstance(source, NodeFinding) and (source.node, source.finding.file) in files:
                self._take(source, fleet.nodes[source.node])
                changed = True
        return changed

    def _take_events(self, fleet: Fleet) -> bool:
        new: list[NodeEvent] = []
        for event in reversed(fleet.events):
            if event is self._last_event:
                break
            new.append(event)
        for event in reversed(new):
            self._take(event, fleet.nodes[event.node])
            self._last_event = event
        return bool(new)

    def _stated(self, finding: Finding) -> FailureClass | None:
        return stated_class(self._packs.by_id.get(finding.rule))

    def _take(self, source: Source, node: Node) -> None:
        """Create and store the alert of a finding or an event.

        Harmless findings and unplaced ends give none.
        """
        clock = node.clock
        offset, error = (0.0, 0.0) if clock is None else (clock.offset_s, clock.error_s)
        if isinstance(source, NodeEvent):
            alert = alert_of_event(node.name, source.event, self._packs, self.where, offset)
            if alert is None:
                if source.event.event == RANK_ENDED:
                    self._unplaced.append(source)
                return
        else:
            if HARMLESS.has(source.finding.rule, self._stated(source.finding)):
                return
            file = source.finding.file
            foreign = self._writers.is_foreign(node.name, file)
            writer = self._writers.writer(node.name, file, self.where) if foreign else None
            until = self._writers.written_until(node.name, file)
            found = as_stated(
                LocatedFinding(node.name, source.finding, offset, error, foreign, writer, until), self._packs
            )
            if found is None:
                return
            alert = alert_of(found, self._packs, self.where)
        known, before = self._alerts.get(alert.id), self._sources.get(alert.id)
        if known is not None and before is not source:
            alert = merge_repeat(known, alert)
        self._keep(structs.replace(alert, state="resolved") if _stays_resolved(known, alert) else alert)
        self._sources[alert.id] = source
        if len(self._alerts) > MAX_ALERTS:
            self._drop(self._surplus())

    def _surplus(self) -> list[str]:
        """Return the ids of alerts to drop: the oldest MAX_ALERTS / 10 of the node that has most alerts."""
        names: dict[str, list[str]] = {}
        for name, source in self._sources.items():
            names.setdefault(source.node, []).append(name)
        return max(names.values(), key=len)[: MAX_ALERTS // 10]

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            del self._alerts[name], self._sources[name]
            self._joiner.drop(name)

    def _keep(self, alert: Alert) -> None:
        self._alerts[alert.id] = alert
        self._joiner.put(alert)


def _stays_resolved(known: Alert | None, alert: Alert) -> bool:
    """Return True if `known` is resolved, and `alert` is of the same job and not later.

    Its time may differ by APART_S: the offset of the node's clock may have changed.
    """
    if known is None or known.state != "resolved" or alert.job != known.job:
        return False
    return alert.last <= known.last + APART_S


def _is_dropped(source: Source, fleet: Fleet) -> bool:
    """Return True if a finding is no longer in the fleet; an event never is.

    Newer findings displaced it, or another node's report represents it.
    """
    if isinstance(source, NodeEvent):
        return False
    return (source.node, source.since, source.finding.id) not in fleet.findings
