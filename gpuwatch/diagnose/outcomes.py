"""Applies outcomes of errors to alerts: which ranks went on, and which incidents this closes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gpuwatch.diagnose.alerts.reported import ReportedAlerts
from gpuwatch.diagnose.error_outcome.by_lines.answered_lines import AnsweredLines, own_files, place_of
from gpuwatch.diagnose.error_outcome.by_lines.recovery_by_lines import unsettled, with_recoveries
from gpuwatch.diagnose.error_outcome.by_lines.undecided import held_lines, undecided, with_undecided
from gpuwatch.diagnose.error_outcome.consequence import with_reported_outcome
from gpuwatch.diagnose.error_outcome.outcomes import with_outcomes
from gpuwatch.diagnose.error_outcome.recovery_by_steps import may_recover
from gpuwatch.diagnose.error_outcome.reporting_nodes import ReportingNodes
from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.incidents.causes.resumptions import Resumptions
from gpuwatch.diagnose.incidents.resolution import (
    Attempt,
    JobAttempts,
    Resolution,
    attempts,
    closings,
    with_closing,
    with_ends,
)
from gpuwatch.diagnose.incidents.restarts import RestartCounts
from gpuwatch.diagnose.job_end.fleet_tracks import tracks_for
from gpuwatch.diagnose.job_end.observed_ends import with_observed_ends
from gpuwatch.diagnose.job_end.planned_end import with_interruption
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.diagnose.model.timing import Resumed
from gpuwatch.diagnose.past_jobs.ended_jobs_watch import EndedJobsWatch
from gpuwatch.diagnose.sources.ended_pids import with_launcher_ends, without_foreign_ends
from gpuwatch.diagnose.training.reporting_ranks import with_reporting_ranks
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress


class Outcomes:
    """The newest steps, attempts and returned lines, applied to the alerts of each judgement."""

    def __init__(self, reported: ReportedAlerts, ended: EndedJobsWatch) -> None:
        self.unsettled: tuple[Alert, ...] = ()
        """Errors in log files whose severity the lines below them may lower."""
        self.lines = AnsweredLines()
        self._reported = reported
        self._ended = ended
        self._tracks: list[StepTrack] = []
        self._running: dict[str, Attempt] = {}
        self._closings: dict[str, Resolution] = {}
        """Incident id -> why it is closed."""
        self._settled: list[Alert] = []
        """The alerts of the last judgement, with the outcomes known then."""
        self._restarts = RestartCounts()
        self._resumptions = Resumptions()
        self._undecided: frozenset[str] = frozenset()
        self._own_files: dict[str, frozenset[str]] = {}
        """Node -> its log files that belong to one rank alone, as of the judgement in progress."""
        self._writers: list[RankProgress] = []
        """What the ranks logged, as of the judgement in progress."""
        self._offset_s = 0.0
        """Unix seconds minus the clock of the steps, as of the judgement in progress."""

    def update(
        self,
        alerts: Collection[Alert],
        incidents: Iterable[Incident],
        fleet: Fleet,
        now: float,
        wall: float,
    ) -> bool:
        """Record the newest steps of the ranks that logged errors, and the attempts and restarts of jobs.

        Returns True if a judgement would differ: a rank went on, a job resumed, an outcome was decided,
        or an incident closes or reopens. `wall`: unix seconds.
        """
        errors = [alert for alert in alerts if alert.recovered or may_recover(alert)]
        self._tracks = tracks_for(errors, fleet, now, wall) if errors else []
        self._restarts.take(fleet)
        self._running = attempts(fleet, self._reported.places, now, wall)
        began = {job: attempt.began for job, attempt in self._running.items()}
        if self._resumptions.take(fleet, began, alerts, now, wall):
            self._reported.take_resumed(dict(self.resumed))
            return True
        if self._undecided != self._not_decided(wall):
            return True
        if self._closed(incidents, wall).keys() != self._closings.keys():
            return True
        open_errors = [alert for alert in errors if not alert.recovered]
        return any(alert.recovered for alert in self._with_steps(open_errors))

    @property
    def resumed(self) -> Resumed:
        """Return job -> the attempts with which it resumed training."""
        return self._resumptions.of_job

    def begin(self, fleet: Fleet, now: float, wall: float) -> None:
        """Record the fleet data for the starting judgement: the ranks' own log files, and who logs steps."""
        self._own_files = own_files(fleet.nodes.values())
        self._offset_s = wall - now
        self._writers = list(fleet.progress.writers.values())

    def applied(self, known: Sequence[Alert], checkpoints: Iterable[Checkpoint], wall: float) -> list[Alert]:
        """Return the alerts with their outcomes, for a judgement that `begin` started.

        `wall`: unix seconds.
        """
        known = with_launcher_ends(known, self._reported.places.ranks)
        known = without_foreign_ends(known, self._reported.places.ranks)
        known = with_reporting_ranks(with_observed_ends(known), self._writers, self._reported.where.sizes)
        self._settled = with_ends(known, self._with_lines(self._with_steps(known), checkpoints))
        self._undecided = self._not_decided(wall)
        return with_interruption(with_undecided(self._settled, self._undecided))

    def closed(self, incidents: Sequence[Incident], wall: float) -> list[Incident]:
        """Return the incidents with their jobs' restart counts; those that a later attempt ended are closed.

        `wall`: unix seconds.
        """
        self._closings = self._closed(incidents, wall)
        counted = self._restarts.with_counts(incidents, self._running, wall)
        return [with_closing(each, self._closings.get(each.id)) for each in counted]

    def _not_decided(self, wall: float) -> frozenset[str]:
        places = self._reported.places.ranks
        waiting = undecided(self._settled, places, self._tracks, self.lines.read, wall)
        return waiting | held_lines(self._settled, places, self._writers, self._offset_s, wall)

    def _with_steps(self, alerts: Sequence[Alert]) -> list[Alert]:
        return with_outcomes(alerts, self._tracks, ReportingNodes(self._reported.places))

    def _with_lines(self, alerts: list[Alert], checkpoints: Iterable[Checkpoint]) -> list[Alert]:
        """Return the alerts; errors that lines returned by nodes show to be outlived get a lower severity."""
        found = self.lines.recoveries(alerts, self._own_files, self._tracks)
        candidates = [alert for alert in unsettled(alerts) if place_of(alert) is not None]
        self.lines.keep_only({place_of(alert) for alert in candidates})
        self.unsettled = tuple(alert for alert in candidates if alert.id not in found)
        saves = [each.at for each in checkpoints if each.at is not None]
        return with_reported_outcome(with_recoveries(alerts, found), self.lines.goes_on, saves)

    def _closed(self, incidents: Iterable[Incident], wall: float) -> dict[str, Resolution]:
        jobs = JobAttempts(self._running, self._ended.last_attempts, self.resumed)
        return closings(incidents, jobs, self._reported.places, self._closings, wall)
