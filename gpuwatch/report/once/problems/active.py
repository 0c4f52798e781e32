"""Collects current problems besides conditions: incidents, alerts from logs and events, unread logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.alerts.condition_alerts import AlertIndex
from gpuwatch.diagnose.hang.silence.silence_snapshot import SilentJob, silent_jobs
from gpuwatch.diagnose.hang.silence.stepless_jobs import SteplessJob, stepless_jobs
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.incident import Incident, outside
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.diagnose.past_jobs.jobs import EndedJob
from gpuwatch.diagnose.straggler.alerts import CODE, ODD
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.report.once.problems.health import PlacedCondition, without_log
from gpuwatch.report.once.problems.pending import pending, unsearched
from gpuwatch.wire import LogFile

OF_RANKS = (CODE, *(code for code, *_ in ODD.values()))
"""Codes of alerts that compare the ranks of a job."""


class Standing(Struct, frozen=True):
    """Current problems besides conditions, and what is unknown."""

    incidents: tuple[Incident, ...] = ()
    """The active incidents, in the order of their causes."""
    alerts: tuple[Alert, ...] = ()
    """The alerts from log lines and events, and from comparisons of a job's ranks, most severe first.

    Other alerts from values are conditions.
    """
    unread: tuple[tuple[Node, LogFile], ...] = ()
    """Files that their agents have not reported as searched."""
    silent: tuple[SilentJob, ...] = ()
    """Jobs that may hang; a report does not observe long enough to decide."""
    stepless: tuple[SteplessJob, ...] = ()
    """Jobs of which no step was seen."""
    checkpoints: Mapping[str | None, Checkpoint] = field(default_factory=dict)
    """Job -> its last checkpoint."""
    ended: tuple[EndedJob, ...] = ()
    """Jobs that ended before gpuwatch connected, newest first."""
    of_ended: tuple[Incident, ...] = ()
    """The incidents of the ended jobs, including those closed because another job was started since."""
    damaged: int = 0
    """Unreadable parts of a recording, whose content is unknown."""

    def states(self, finding: PlacedCondition) -> bool:
        """Return True if an incident or alert here already reports this condition."""
        reported = [*self.alerts, *(alert for incident in self.incidents for alert in incident.alerts)]
        return AlertIndex(reported).states(finding.node.name, finding.condition)


NOTHING_STANDS = Standing()


def standing(book: AlertBook, fleet: Fleet, now: float, wall: float) -> Standing:
    """Return the current problems in the alert book. `now`: monotonic, `wall`: unix seconds.

    Incidents that are over, and incidents and alerts older than what counts for their job, are left out; so
    are alerts that are silenced, that are only a remark (`info`), or that a condition states.
    """
    kept = [each for each in book.incidents if not each.over and wall - each.last <= book.lasts_s(each.job)]
    loose = [
        alert
        for alert in outside(book.alerts.values(), book.incidents)
        if alert.state == "firing"
        and not alert.silenced
        and (alert.proof[0].kind != "value" or _is_of_ranks(alert))
        and alert.severity != "info"
        and wall - alert.last <= book.lasts_s(alert.job)
    ]
    return Standing(
        tuple(sorted(kept, key=lambda incident: (incident.first, incident.number))),
        tuple(sorted(loose, key=lambda alert: (ORDER.index(alert.severity), alert.first))),
        tuple((node, file) for node in fleet.nodes.values() for file in unsearched(node)),
        tuple(
            replace(job, hang_check=book.hangs.checks.get(job.job))
            for job in silent_jobs(fleet.nodes.values(), fleet.plan.thresholds.hang_s, wall, fleet.progress)
        ),
        tuple(stepless_jobs(fleet, now, wall)),
        book.checkpoints,
        book.ended_jobs,
        tuple(each for each in book.incidents if each.job in {job.name for job in book.ended_jobs}),
    )


def _is_of_ranks(alert: Alert) -> bool:
    """Return True if the alert is from the comparison of a job's ranks: no node's condition states it."""
    return alert.code in OF_RANKS and alert.job is not None and alert.rank is not None


def healthy(
    fleet: Fleet, found: Sequence[PlacedCondition], now: float, stands: Standing = NOTHING_STANDS
) -> bool:
    """Return True if everything due has answered, no incident is active, and nothing above `info` was found.

    Args:
        fleet: The nodes.
        found: Current conditions.
        now: Monotonic seconds, the fleet's own clock.
        stands: Other problems. A silent job counts as unhealthy only if it logged steps far more often
            before; so does a recording with unreadable parts.
    """
    if stands.damaged or any(job.is_stalled for job in stands.silent):
        return False
    if any(alert.severity != "info" for alert in stands.alerts):
        return False
    if stands.incidents or pending(fleet, now) or without_log(fleet):
        return False
    all_received = all(node.state(now) == "live" for node in fleet.nodes.values())
    return all_received and all(finding.condition.severity == "info" for finding in found)
