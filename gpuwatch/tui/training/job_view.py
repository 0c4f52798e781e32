"""The data of screen 6: one job, computed again about once per second (less often if it is large)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.failure_classes import OF_TRAINING
from gpuwatch.diagnose.training.job_view.build import jobs_of, overview, received_from
from gpuwatch.diagnose.training.job_view.facts import JobFacts
from gpuwatch.diagnose.training.job_view.job_members import members_of
from gpuwatch.diagnose.training.job_view.rank_placement import Job
from gpuwatch.tui.model.alert_snapshot import AlertSnapshot, standing
from gpuwatch.tui.model.view_state import ViewState

EVERY_S, STALE_AFTER_S = 1.0, 3.0
"""Interval of the computation; data older than the second value was not shown for a while."""
RANKS_IN_TIME = 2048
"""With more ranks than this, a job is computed less often, so that the work per second is limited."""
PROGRESS = OF_TRAINING | (
    "job.hang", "slower_than_peers", "spins_alone", "link_below_peers", "lone_gpu", "less_used_than_peers",
)  # fmt: skip
"""Classes of alerts about the progress of a training."""


class TrainingView:
    """The selected job with its facts and alerts; it survives leaving the screen."""

    def __init__(self, view_state: ViewState) -> None:
        self._view_state = view_state
        self.jobs: list[Job] = []
        self.facts: JobFacts | None = None
        self.alerts: list[Alert] = []
        """The active alerts (firing or acknowledged) about this job's progress, the most severe first."""
        self.version = 0
        """Increases with every change of the above."""
        self._chosen: Job = None
        self._by_hand = False
        self._seen: object = None
        self._alerts_of: AlertSnapshot | None = None
        self._work: Iterator[JobFacts | None] | None = None
        """The running computation."""

    def refresh(self) -> None:
        """Compute the job again if due: a part per frame, or all of it if what is shown is old."""
        view_state = self._view_state
        age_s = math.inf if self.facts is None else abs(view_state.now - self.facts.made_at)
        slower = 1.0 if self.facts is None else max(1.0, len(self.facts.rows) / RANKS_IN_TIME)
        at_once = (view_state.frozen, view_state.scope.job, self._chosen, self._by_hand) != self._seen or (
            age_s >= STALE_AFTER_S * slower and not view_state.frozen
        )
        if at_once or (self._work is None and age_s >= EVERY_S * slower and not view_state.frozen):
            self._work = self._begin()
        while self._work is not None:
            facts = next(self._work)
            if facts is not None:
                self._work = None
                self._take(facts)
            if not at_once:
                break
        if self._alerts_of is not view_state.snapshot:
            self._take_alerts()

    def _begin(self) -> Iterator[JobFacts | None]:
        view_state = self._view_state
        hang_check = received_from(view_state.fleet, view_state.placement)
        self.jobs = jobs_of(view_state.placement, hang_check)
        if view_state.scope.job is not None:
            self.jobs = [job for job in self.jobs if job == view_state.scope.job]
        if not self._by_hand or self._chosen not in self.jobs:
            self._chosen = self.jobs[0] if self.jobs else None
        self._seen = (view_state.frozen, view_state.scope.job, self._chosen, self._by_hand)
        return overview(
            view_state.fleet,
            view_state.placement,
            hang_check,
            self._chosen,
            view_state.now,
            view_state.wall(),
        )

    def _take(self, facts: JobFacts) -> None:
        self.facts = facts
        self._take_alerts()

    def _take_alerts(self) -> None:
        """Read the job's alerts as every other part of the screen states them now."""
        self._alerts_of = self._view_state.snapshot
        self.alerts = sorted(self._own_alerts(), key=lambda alert: ORDER.index(alert.severity))
        self.version += 1

    def _own_alerts(self) -> list[Alert]:
        members = members_of(self._chosen, self._view_state.fleet, self._view_state.placement)
        return [
            alert
            for alert in self._view_state.snapshot.alerts.values()
            if alert in PROGRESS
            and standing(alert) in ("firing", "acknowledged")
            and (alert.job == self._chosen or (alert.job is None and members.concerns(alert.node, alert.gpu)))
        ]

    def turn(self, step: int) -> None:
        """Select the job `step` places further in the list, wrapping around."""
        if self.jobs:
            at = self.jobs.index(self._chosen) if self._chosen in self.jobs else 0
            self._chosen, self._by_hand = self.jobs[(at + step) % len(self.jobs)], True
            self.refresh()

    @property
    def number(self) -> int:
        """The job's position in the list, from 1; 0 if there is none."""
        return self.jobs.index(self._chosen) + 1 if self._chosen in self.jobs else 0
