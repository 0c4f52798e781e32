"""The alert book: keeps the state of all alerts and incidents; updated a few times a second."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import thread_time

from msgspec import structs

from gpuwatch.clock import SteadyOffset
from gpuwatch.diagnose.alerts.condition_alerts import on_its_rank
from gpuwatch.diagnose.alerts.deduplication.deduplicator import Deduplicator
from gpuwatch.diagnose.alerts.full_mounts import disks_of, with_mounts
from gpuwatch.diagnose.alerts.operator_marks import Acknowledgement, OperatorMarks
from gpuwatch.diagnose.alerts.probed_links import ProbedLinksWatch
from gpuwatch.diagnose.alerts.reported import ReportedAlerts
from gpuwatch.diagnose.alerts.stable_ids import LastingIds
from gpuwatch.diagnose.error_outcome.by_lines.answered_lines import Place
from gpuwatch.diagnose.error_outcome.consequence import followed_nothing
from gpuwatch.diagnose.hang.hang_watch import HangWatch
from gpuwatch.diagnose.hang.idle_ranks import IdleRanks
from gpuwatch.diagnose.hang.silence.silent_watch import SilentWatch
from gpuwatch.diagnose.health.sweep import HealthSweep
from gpuwatch.diagnose.incidents.annotations import Annotations
from gpuwatch.diagnose.incidents.builder import in_order, incident_of
from gpuwatch.diagnose.incidents.causes.end_order import end_order
from gpuwatch.diagnose.incidents.causes.grouping import groups
from gpuwatch.diagnose.missing_ranks.end_order import EndOrderWatch
from gpuwatch.diagnose.missing_ranks.missing_watch import MissingWatch
from gpuwatch.diagnose.missing_ranks.unwatched_ends import UnwatchedEndsWatch
from gpuwatch.diagnose.missing_ranks.vanished import VanishedWatch
from gpuwatch.diagnose.missing_ranks.waiting_watch import WaitingWatch
from gpuwatch.diagnose.model.alert import Alert, Silence, firing_counts
from gpuwatch.diagnose.model.check_interval import CheckInterval
from gpuwatch.diagnose.model.failure_classes import RulePacks
from gpuwatch.diagnose.model.incident import HangCheck, Incident, IncidentNote, Recurrence, acknowledged_with
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint, checkpoints
from gpuwatch.diagnose.outcomes import Outcomes
from gpuwatch.diagnose.past_jobs.earlier_sessions import EarlierJob, EarlierJobsWatch
from gpuwatch.diagnose.past_jobs.ended_jobs_watch import EndedJobsWatch
from gpuwatch.diagnose.past_jobs.jobs import ENDED_S, EndedJob
from gpuwatch.diagnose.past_jobs.last_words import with_last_words
from gpuwatch.diagnose.serving.serving_watch import ServingWatch
from gpuwatch.diagnose.sources.contradictions import Contradictions
from gpuwatch.diagnose.sources.ended_pids import with_ended_pids
from gpuwatch.diagnose.sources.node_report import NodeReport, node_reports
from gpuwatch.diagnose.sources.unconfirmed import with_unconfirmed_node
from gpuwatch.diagnose.sources.unsent_signals import with_unsent_signals
from gpuwatch.diagnose.straggler.sampled_stacks import SampledStacksWatch
from gpuwatch.diagnose.straggler.straggler_watch import StragglerWatch
from gpuwatch.diagnose.training.training_watch import TrainingWatch
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.places import Places
from gpuwatch.fleet.stepwise import Steps, complete
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.number_text import is_ahead
from gpuwatch.runs.files.excerpts.around import Around
from gpuwatch.wire import Severity

RESOLVED_AFTER_S = 3600.0
"""Seconds after its last report at which an alert from a line or an event is resolved."""
SETTLE_EVERY_S = 10.0
JUDGE_S_PER_ALERT = 0.0002
"""Pause between two judgements in seconds per alert (4 s at 20,000): a few percent of a core."""
FOLDED_AT_ONCE = 1500
SLICE_S = 0.04
"""CPU seconds that one update judges, at least one step; the next update continues."""
FLOOD_S = 5.0
"""Longest delay of a judgement (seconds) while a flood of findings is taken in."""
OUTCOMES_EVERY_S = 2.0
"""Seconds between two checks whether ranks went on after their errors."""


class AlertBook:
    """All alerts and incidents of a session. `version` changes whenever one of them does."""

    def __init__(self, packs: RulePacks, thresholds: Thresholds) -> None:
        self.alerts: dict[str, Alert] = {}
        """Alert id -> newest state of the alert."""
        self.incidents: list[Incident] = []
        """All incidents, newest first; those dated in the future come last."""
        self.version = 0
        self.checkpoints: dict[str | None, Checkpoint] = {}
        """Job -> its last checkpoint, as of the last judgement."""
        self._packs = packs
        self._thresholds = thresholds
        self._joiner = Deduplicator()
        self._reported = ReportedAlerts(packs, self._joiner)
        self._rounds = HealthSweep(thresholds)
        self.hangs = HangWatch(thresholds)
        self._of_logs = StragglerWatch(thresholds), TrainingWatch(thresholds)
        jobs = (*self._of_logs, ServingWatch(thresholds))
        silent = SilentWatch(self.hangs, thresholds.hang_s)
        self.sampled, self.probed = SampledStacksWatch(), ProbedLinksWatch()
        ranks = (self.sampled, VanishedWatch(), MissingWatch(), WaitingWatch(), UnwatchedEndsWatch())
        self._watches = (self.hangs, silent, *jobs, *ranks, self.probed)
        self._end_order, self._idle_ranks = EndOrderWatch(), IdleRanks()
        self._checkpoints_version, self._doubts = 0, Contradictions()
        self._ended, self._earlier = EndedJobsWatch(), EarlierJobsWatch()
        self._marks, self._lasting_ids = OperatorMarks(), LastingIds()
        self._annotations, self._offset, self._dirty = Annotations(), SteadyOffset(), False
        self._wall = 0.0
        """Unix seconds of the newest update."""
        self._judging: Iterator[None] | None = None
        self._judge_at = 0.0
        self._outcomes = Outcomes(self._reported, self._ended)
        intervals = CheckInterval(OUTCOMES_EVERY_S), CheckInterval(SETTLE_EVERY_S)
        self._outcomes_interval, self._settle_interval = intervals
        self._node_reports: dict[str, NodeReport] = {}
        """Node -> the processes and files that it reports, as of the judgement in progress."""

    def renewed(self) -> AlertBook:
        """Return a new book that judges all facts again, with the same ids, notes and operator marks."""
        book = AlertBook(self._packs, self._thresholds)
        book._marks, book._lasting_ids, book.version = self._marks, self._lasting_ids, self.version + 1
        book._annotations = self._annotations
        book.take_earlier(self._earlier.jobs)
        book._mark_now()
        return book

    @property
    def places(self) -> Places:
        """Return where the ranks run (job, rank, node, GPU), as far as is known."""
        return self._reported.places

    @property
    def unsettled(self) -> tuple[Alert, ...]:
        """Return errors in log files whose severity may still be lowered by the lines below them."""
        return self._outcomes.unsettled

    @property
    def ended_jobs(self) -> tuple[EndedJob, ...]:
        """Return the jobs that ended before their nodes were connected, newest first."""
        return self._ended.jobs

    def lasts_s(self, job: str | None) -> float:
        """Return how long (seconds) an alert from a line or event of this job fires after its last report."""
        return ENDED_S if job in self._ended.names | self._earlier.names else RESOLVED_AFTER_S

    @property
    def silences(self) -> tuple[Silence, ...]:
        """Return the active silences, as plain data for the session to store."""
        return self._marks.silences

    @property
    def counts(self) -> dict[Severity, int]:
        """Return the number of firing alerts by severity, without silenced and acknowledged ones."""
        return firing_counts(self.alerts.values())

    @property
    def behind(self) -> bool:
        """Return True if `alerts` and `incidents` do not yet reflect all facts that arrived."""
        taking = self._reported.behind or self._joiner.behind or self._ended.behind(self.version)
        return self._dirty or taking or self._judging is not None

    def update(self, fleet: Fleet, now: float, wall: float) -> bool:
        """Run all steps of `updating`; return True if a judgement was completed."""
        return complete(self.updating(fleet, now, wall))

    def updating(self, fleet: Fleet, now: float, wall: float) -> Steps[bool]:
        """Process what is new in the fleet and continue the judgement; yield between steps.

        Return True if a judgement was completed. `now`: the fleet's monotonic clock; `wall`: unix seconds.
        """
        self._wall = wall = self._offset.wall(now, wall)
        self._dirty |= self._reported.update(fleet, now, wall)
        self._dirty |= fleet.checkpoints.version != self._checkpoints_version
        self._checkpoints_version = fleet.checkpoints.version
        moved = yield from self._rounds.going(fleet, now, wall)
        self._dirty |= moved
        for watch in self._watches:
            self._dirty |= watch.go(fleet, now, wall)
            yield
        self._dirty |= self._end_order.go(fleet, now, wall)
        yield
        if self._outcomes_interval.is_due(now):
            self._dirty |= self._outcomes.update(self.alerts.values(), self.incidents, fleet, now, wall)
            logged = (alert for name, alert in self.alerts.items() if name not in self._ended.alerts)
            self._dirty |= self._doubts.changed(logged, self._reported.where, node_reports(fleet, now, wall))
        self._dirty |= self._ended.go(fleet, self.alerts.values(), self.version, self.places, now, wall)
        self._dirty |= self._earlier.go(fleet, self.ended_jobs, now, wall)
        if self._settle_interval.is_due(now):
            self._dirty |= self._reported.settle(wall, self.lasts_s)
            self._dirty |= self._marks.expire(wall)
        self._joiner.fold(FOLDED_AT_ONCE)
        flooded = (self._reported.behind or self._joiner.behind) and now < self._judge_at + FLOOD_S
        if self._judging is None and (not self._dirty or now < self._judge_at or flooded):
            return False
        return (yield from self._judged(fleet, now, wall))

    def acknowledge(self, id: str, by: str | None = None) -> list[Acknowledgement]:  # noqa: A002 - the word that alerts and incidents use
        """Acknowledge an alert or an incident; return the marks made (an unknown id: none)."""
        self._mark_now()
        meant = acknowledged_with(id, self.incidents, self.alerts)
        return self._marks.acknowledge(meant, self._wall, by)

    def unacknowledge(self, id: str) -> list[str]:  # noqa: A002 - the word that alerts and incidents use
        """Clear the acknowledgement of an alert or an incident; return the ids of its alerts."""
        meant = acknowledged_with(id, self.incidents, self.alerts)
        self._marks.unacknowledge(meant)
        self._mark_now()
        return [alert.id for alert in meant]

    def restore_acknowledged(self, marks: Iterable[Acknowledgement], wall: float) -> None:
        """Replace all acknowledgements by the merged ones of all cockpits. `wall`: unix seconds."""
        self._marks.restore_acknowledged(marks, wall)
        self._mark_now()

    def take_lapsed(self) -> set[str]:
        """Return and clear the ids of alerts that fired again after they were acknowledged."""
        lapsed, self._marks.lapsed = self._marks.lapsed, set()
        return lapsed

    def keep_hang_check(self, id: str, hang_check: HangCheck) -> None:  # noqa: A002 - the word that alerts and incidents use
        """Attach a hang check (which ranks the others wait for) to an incident; it replaces an older one."""
        self._lasting_ids.keep_hang_check(id, hang_check)
        self._mark_now()

    def keep_recurrence(self, id: str, recurrence: Recurrence) -> None:  # noqa: A002 - the word that alerts and incidents use
        """Store how often an incident was seen before; the next snapshot shows it."""
        self._annotations.keep_recurrence(id, recurrence)
        self._annotate()

    def keep_notes(self, notes: Mapping[str, tuple[IncidentNote, ...]]) -> None:
        """Replace all notes (by incident id and by cause); the next snapshot shows them."""
        self._annotations.keep_notes(notes)
        self._annotate()

    def _annotate(self) -> None:
        self.incidents = self._annotations.applied(self.incidents)
        self.version += 1

    @property
    def suspected_hangs(self) -> frozenset[str]:
        """Return the jobs whose ranks may be queried: silent for a window, with signs of a hang."""
        return frozenset(self.hangs.suspected)

    def keep_lines(self, place: Place, around: Around) -> None:
        """Store the lines around an error, or the last of a file, as a node returned them."""
        self._outcomes.lines.put(place, around)
        self._dirty = True

    def silence(
        self,
        code: str,
        node: str | None = None,
        gpu: int | None = None,
        rank: int | None = None,
        until: float | None = None,
    ) -> None:
        """Silence matching alerts until `until` (unix seconds), or until the silence is removed."""
        self._marks.silence(Silence(code, node, gpu, rank, until))
        self._mark_now()

    def unsilence(
        self, code: str, node: str | None = None, gpu: int | None = None, rank: int | None = None
    ) -> None:
        """Remove the silence with exactly these values, whatever its end."""
        self._marks.unsilence(Silence(code, node, gpu, rank))
        self._mark_now()

    def restore(self, silences: Iterable[Silence]) -> None:
        """Replace all silences by those of an earlier session."""
        self._marks.restore(silences)
        self._mark_now()

    def take_earlier(self, jobs: Sequence[EarlierJob]) -> None:
        """Replace the ended jobs, with their failures, that an earlier session recorded."""
        self._earlier = EarlierJobsWatch(jobs)
        self._mark_now()

    def judge_now(self) -> None:
        """Judge all known facts with the next updates, not at the next interval (for one-shot reports)."""
        self._outcomes_interval.hurry()
        for watch in (self.hangs, *self._of_logs):
            watch.hurry()
        self._mark_now()

    def _mark_now(self) -> None:
        """Make the next update judge at once, so that a change by the operator shows."""
        self._dirty, self._judge_at = True, 0.0

    def _judged(self, fleet: Fleet, now: float, wall: float) -> Steps[bool]:
        """Begin or continue a judgement for one time slice; yield between steps, return True at its end."""
        if self._judging is None:
            self._dirty = False
            self._node_reports = node_reports(fleet, now, wall)
            self._outcomes.begin(fleet, now, wall)
            self.checkpoints = self._earlier.checkpoints | checkpoints(fleet, now, wall)
            self._judging = self._judge(fleet, now, wall)
        until = thread_time() + SLICE_S
        for _ in self._judging:
            if thread_time() > until:
                return False
            yield
        self._judging = None
        self._judge_at = now + JUDGE_S_PER_ALERT * len(self.alerts)
        self.version += 1
        return True

    def _judge(self, fleet: Fleet, now: float, wall: float) -> Iterator[None]:
        """Judge step by step, yielding between steps; `alerts` and `incidents` are replaced at the end.

        The fleet is read before the first `yield` only.
        """
        for alert in self._rounds.alerts(len(fleet.nodes)):
            self._joiner.put(on_its_rank(alert, self._reported.where))
        for watch in self._watches:
            for name, alert in watch.alerts.items():
                if alert.state == "firing" or name not in self._rounds.holding.alerts:
                    self._joiner.put(alert)
        where = self._reported.where
        known = self._doubts.applied(self._joiner.joined(), where, self._node_reports)
        known = with_mounts(known, disks_of(fleet.nodes.values(), wall - now))
        known = self._idle_ranks.applied(known, where, fleet, now, wall)
        known = with_last_words(known, {job.name: job.last_words for job in self.ended_jobs})
        known = with_ended_pids(self._earlier.completed([*known, *self._ended.alerts.values()]))
        outcomes = self._outcomes.applied(with_unsent_signals(known), self.checkpoints.values(), wall)
        alerts = self._lasting_ids.name_alerts(outcomes)
        yield
        alerts = [self._marks.applied(alert, wall) for alert in alerts]
        found = []
        for group in groups([alert for alert in alerts if not alert.silenced], where, self._outcomes.resumed):
            yield
            order = end_order(group, self._end_order.alerts, alerts)
            if order is not None:
                order = self._marks.applied(order, wall)
                group.add(order)
                alerts.append(order)
            said = self._outcomes.lines.last_lines(group.job, where.places.ranks)
            incident = incident_of(group, where, self._packs, wall, said)
            incident = with_unconfirmed_node(incident, where, self._node_reports)
            over = incident.over or incident.job in self._ended.superseded
            found.append(structs.replace(incident, over=over, checkpoint=self.checkpoints.get(incident.job)))
        yield
        grouped_ids = {alert.id for incident in found for alert in incident.alerts}
        alerts = [alert if alert.id in grouped_ids else followed_nothing(alert) for alert in alerts]
        self.alerts = {alert.id: alert for alert in alerts}
        named = self._annotations.applied(self._lasting_ids.name_incidents(in_order(found)))
        closed = self._outcomes.closed(named, wall)
        self.incidents = sorted(
            closed, key=lambda each: (is_ahead(wall - each.first), -each.first, -each.number)
        )
        ended = [each for incident in self.incidents if incident.closed for each in incident.alerts]
        self.alerts.update((each.id, each) for each in ended if each.id in self.alerts)
