"""Tracks which jobs ended, and the alerts of those that stopped early; judges again if something changed."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.past_jobs.jobs import EndedJob, ended_jobs
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.ended_files import is_ended
from gpuwatch.fleet.jobs.places import Places

SAME_END_S = 60.0
"""Seconds by which the end of a job may shift as the node's clock offset becomes more precise."""


class EndedJobsWatch:
    """Tracks the ended jobs. Call `go` with every update."""

    def __init__(self) -> None:
        self.jobs: tuple[EndedJob, ...] = ()
        """The ended jobs, newest first."""
        self.alerts: dict[str, Alert] = {}
        """Alert id -> alert of a job that stopped early without a line that explains it."""
        self.names: frozenset[str] = frozenset()
        """Names of all ended jobs."""
        self.superseded: frozenset[str] = frozenset()
        """Names of jobs after which their user started another one."""
        self.last_attempts: dict[str, int] = {}
        """Name -> number of the last attempt that trained, where log folders show it."""
        self._followed: dict[str, float] = {}
        """Name -> end of each superseded job; a later end of its successor changes nothing."""
        self._seen: tuple[int, ...] = ()
        self._places: Places | None = None
        self._files: dict[str, bool] = {}
        self._logs_version = -1

    def behind(self, alerts_version: int) -> bool:
        """Return True if there are ended jobs that were not judged since the alerts changed."""
        return any(self._files.values()) and self._seen[-1:] != (alerts_version,)

    def go(
        self,
        fleet: Fleet,
        alerts: Iterable[Alert],
        alerts_version: int,
        places: Places,
        now: float,
        wall: float,
    ) -> bool:
        """Judge again if something changed; return True if an ended job or an alert is new or different.

        Args:
            fleet: All that is known now.
            alerts: All alerts.
            alerts_version: Changes when `alerts` does.
            places: Where ranks run and ran.
            now: Monotonic seconds.
            wall: Unix seconds.
        """
        if fleet.logs_version != self._logs_version:
            self._logs_version = fleet.logs_version
            self._files = {name: any(map(is_ended, node.logs)) for name, node in fleet.nodes.items()}
        seen = (fleet.logs_version, fleet.progress.version, alerts_version)
        same = seen == self._seen and places is self._places
        if same or not (any(self._files.values()) or self.jobs):
            return False
        self._seen, self._places = seen, places
        found = ended_jobs(fleet, alerts, places, now, wall)
        jobs = tuple(job for job, _ in found)
        stops = {alert.id: alert for _, each in found for alert in each}
        changed = (jobs, stops) != (self.jobs, self.alerts)
        self.jobs, self.alerts = jobs, stops
        self.names = frozenset(job.name for job in jobs)
        self._followed.update((job.name, job.last) for job in jobs if job.superseded)
        self.superseded = frozenset(
            job.name for job in jobs if abs(job.last - self._followed.get(job.name, 0.0)) <= SAME_END_S
        )
        self.last_attempts = {job.name: job.attempt for job in jobs if job.attempt is not None}
        return changed
