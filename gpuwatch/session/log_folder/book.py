"""The alerts and incidents of a log folder, as reported by the judging process, with the operator's marks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from msgspec import structs

from gpuwatch.diagnose.alerts.operator_marks import OperatorMarks
from gpuwatch.diagnose.incidents.builder import acknowledged_since
from gpuwatch.diagnose.model.alert import Alert, Silence
from gpuwatch.diagnose.model.incident import HangCheck, Incident, acknowledged_with
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.diagnose.past_jobs.jobs import EndedJob
from gpuwatch.session.log_folder.report import UNNAMED_NODE, FolderReport


class FolderBook:
    """An alert book that shows reports instead of judging.

    `version` changes with each report and each mark.
    """

    def __init__(self, job: str, wall: Callable[[], float] = time.time) -> None:
        """Create an empty book.

        Args:
            job: Name of the job.
            wall: Unix seconds, for the times of marks.
        """
        self.alerts: dict[str, Alert] = {}
        self.incidents: list[Incident] = []
        self.ended_jobs: tuple[EndedJob, ...] = ()
        self.checkpoints: dict[str | None, Checkpoint] = {}
        self.version = 0
        self._job = job
        self._wall = wall
        self._report = FolderReport((), (), {})
        self._marks = OperatorMarks()
        self._checks: dict[str, HangCheck] = {}

    def take(self, report: FolderReport) -> None:
        """Show this report instead of the previous one."""
        self._report = report
        self._show()

    def acknowledge(self, ident: str) -> None:
        """Acknowledge the alert or incident with this id; an unknown one is ignored."""
        self._marks.acknowledge(acknowledged_with(ident, self.incidents, self.alerts), self._wall())
        self._show()

    def unacknowledge(self, ident: str) -> None:
        """Remove the acknowledgement of an alert or an incident."""
        self._marks.unacknowledge(acknowledged_with(ident, self.incidents, self.alerts))
        self._show()

    def silence(self, silence: Silence) -> None:
        """Silence matching alerts."""
        self._marks.silence(silence)
        self._show()

    def unsilence(self, silence: Silence) -> None:
        """Remove a silence."""
        self._marks.unsilence(silence)
        self._show()

    def keep_hang_check(self, ident: str, hang_check: HangCheck) -> None:
        """Attach a hang check (which ranks the others wait for) to the incident with this id."""
        self._checks[ident] = hang_check
        self._show()

    def _show(self) -> None:
        judgement = self._report.judgement
        shown = [self._shown(each) for each in judgement.incidents]
        self.incidents = sorted(
            (each for each in shown if not all(alert.silenced for alert in each.alerts)),
            key=lambda each: (-each.first, -each.number),
        )
        every = [*(alert for each in shown for alert in each.alerts), *self._marked(judgement.outside)]
        self.alerts = {alert.id: alert for alert in every}
        self.checkpoints = {} if judgement.checkpoint is None else {self._job: judgement.checkpoint}
        self.ended_jobs = (self._ended_job(),) if self._report.judged else ()
        self.version += 1

    def _shown(self, incident: Incident) -> Incident:
        alerts = tuple(self._marked(incident.alerts))
        by_id = {alert.id: alert for alert in alerts}
        cause = None if incident.cause is None else by_id.get(incident.cause.id, incident.cause)
        taken = acknowledged_since(cause, alerts)
        return structs.replace(
            incident,
            alerts=alerts,
            cause=cause,
            acknowledged=taken is not None,
            acknowledged_at=None if taken is None else taken[0],
            acknowledged_by=None if taken is None else taken[1],
            hang_check=self._checks.get(incident.id, incident.hang_check),
        )

    def _marked(self, alerts: Iterable[Alert]) -> list[Alert]:
        return [self._marks.applied(alert, self._wall()) for alert in alerts]

    def _ended_job(self) -> EndedJob:
        report = self._report
        named = tuple(name for name in report.nodes if name != UNNAMED_NODE)
        return EndedJob(
            self._job,
            named or tuple(report.nodes),
            report.ranks,
            report.log_files,
            report.ended_at,
            report.judgement.end,
            searched=True,
        )
