"""What stands now beside the conditions: incidents, alerts of logs and events, logs not yet read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.alerts.condition_alerts import AlertIndex
from gpuwatch.diagnose.hang.silence_snapshot import SilentJob, silent_jobs
from gpuwatch.diagnose.hang.stepless_jobs import SteplessJob, stepless_jobs
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.incident import Incident, outside
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.diagnose.past_jobs.jobs import EndedJob
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.report.once.health import PlacedCondition, without_log
from gpuwatch.report.once.pending import pending, unsearched
from gpuwatch.wire import LogFile


@dataclass(frozen=True)
class Standing:
    """Incidents that are not over, and alerts that fire and belong to none of them."""

    incidents: tuple[Incident, ...] = ()
    """In the order of their first cause."""
    alerts: tuple[Alert, ...] = ()
    """Of lines and events, the gravest first; what values state is among the conditions."""
    unread: tuple[tuple[Node, LogFile], ...] = ()
    """Files of which their agents have not stated that they are searched."""
    silent: tuple[SilentJob, ...] = ()
    """Jobs that may hang: a report does not look for long enough to report."""
    stepless: tuple[SteplessJob, ...] = ()
    """Jobs of whose training nothing is known yet."""
    checkpoints: Mapping[str | None, Checkpoint] = field(default_factory=dict)
    """Job -> its last checkpoint."""
    ended: tuple[EndedJob, ...] = ()
    """Jobs that ended before we connected, the last one first."""
    of_ended: tuple[Incident, ...] = ()
    """The incidents of these, also those that are over because a job was started since."""
    damaged: int = 0
    """Parts of the recording that could not be read: anything may have stood in them."""

    def states(self, finding: PlacedCondition) -> bool:
        """Whether an incident or alert here reports this condition already."""
        reported = [*self.alerts, *(alert for incident in self.incidents for alert in incident.alerts)]
        return AlertIndex(reported).states(finding.node.name, finding.condition)


NOTHING_STANDS = Standing()


def standing(book: AlertBook, fleet: Fleet, now: float, wall: float) -> Standing:
    """What the book holds at this moment. `now`: monotonic, `wall`: unix seconds."""
    kept = [each for each in book.incidents if not each.over and wall - each.last <= book.lasts_s(each.job)]
    loose = [
        alert
        for alert in outside(book.alerts.values(), book.incidents)
        if alert.state == "firing"
        and not alert.silenced
        and alert.proof[0].kind != "value"
        and alert.severity != "info"
        and wall - alert.last <= book.lasts_s(alert.job)
    ]
    return Standing(
        tuple(sorted(kept, key=lambda incident: (incident.first, incident.number))),
        tuple(sorted(loose, key=lambda alert: (ORDER.index(alert.severity), alert.first))),
        tuple((node, file) for node in fleet.nodes.values() for file in unsearched(node)),
        tuple(silent_jobs(fleet.nodes.values(), fleet.plan.thresholds.hang_s, wall, fleet.progress)),
        tuple(stepless_jobs(fleet, now, wall)),
        book.checkpoints,
        book.ended_jobs,
        tuple(each for each in book.incidents if each.job in {job.name for job in book.ended_jobs}),
    )


def healthy(
    fleet: Fleet, found: Sequence[PlacedCondition], now: float, stands: Standing = NOTHING_STANDS
) -> bool:
    """Everything that is due has answered, no incident stands, and nothing worse than a remark was found.

    Args:
        fleet: What is known now.
        found: Conditions that hold now.
        now: Monotonic seconds, the fleet's own clock.
        stands: Beside these conditions. Of silent jobs those are not well that logged steps far more often
            before; a recording with parts that cannot be read is not well either.
    """
    if stands.damaged or any(job.is_stalled for job in stands.silent):
        return False
    if any(alert.severity != "info" for alert in stands.alerts):
        return False
    if stands.incidents or pending(fleet.nodes.values(), now) or without_log(fleet):
        return False
    all_received = all(node.state(now) == "live" for node in fleet.nodes.values())
    return all_received and all(finding.condition.severity == "info" for finding in found)
