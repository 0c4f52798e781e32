"""Closes incidents whose alerts still fire: the job runs again, or no rank is left that could hang."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.incidents.causes.resumptions import PROOF_STEPS
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.failure_classes import EXITS, LAUNCHER_KILLED
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.text import clock
from gpuwatch.diagnose.model.timing import APART_S, Resumed, Resumption, attempt_of_path
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.places import Places
from gpuwatch.number_text import duration

SILENT_START_S = 300.0
"""An attempt of a job that never logged a step closes earlier incidents after this time (seconds)."""
STEPS_AGAIN = " and made steps again"
ATTEMPT_LISTED_S = 15.0
"""Processes are listed every 5 s: steps sooner than this (s) may be of an attempt not listed yet."""
LAST_RANK_S = 5.0
"""A process may be missing from one list; a hang ends after no rank was listed for this long (seconds)."""


class LastStep(Struct, frozen=True):
    """The newest step that a rank logged in one file: where the line is, and when."""

    node: str
    file: str
    rank: int | None
    offset: int | None
    """Offset of the step's line (bytes)."""
    at: float
    """Unix seconds on our clock."""

    def follows(self, alert: Alert) -> bool:
        """Return True if the step came after an alert: below it in the same file, else by time.

        False if the alert has a later date than the step: the file was truncated in between.
        """
        proof = alert.proof[0]
        if alert.timed and self.at < alert.last - APART_S:
            return False
        if (self.file, self.node) == (proof.file, proof.node) and None not in (self.offset, proof.offset):
            return (self.offset or 0) > max(proof.offset or 0, alert.last_offset or 0)
        return self.at > alert.last + APART_S


class Attempt(Struct, frozen=True):
    """The living attempt of a job: when it began, whether it makes steps, and each rank's newest step."""

    began: float
    """Start of its first process, unix seconds on our clock."""
    steps: int
    """Steps since then in the file that has most of them, counted up to `PROOF_STEPS`."""
    has_steps: bool
    """True if the job ever logged a step."""
    stepped_at: float | None = None
    """When the newest step was logged, unix seconds on our clock."""
    last_steps: tuple[LastStep, ...] = ()
    """The newest step of each rank in each of its files."""
    nodes: frozenset[str] = frozenset()
    """Nodes of its processes."""

    def has_stepped_after(self, alert: Alert) -> bool:
        """Return True if the alert's rank logged a step since; also if it logs no steps at all.

        If the rank is unknown, the alert's file counts.
        """
        proof = alert.proof[0]
        own = [
            step
            for step in self.last_steps
            if (step.rank == alert.rank if alert.rank is not None else step.file == proof.file)
        ]
        return not own or any(step.follows(alert) for step in own)

    def progress(self, wall: float) -> str | None:
        """Return why the attempt closes earlier incidents, such as ` and made steps again`.

        None: it does not yet. PROOF_STEPS logged steps are required. For a job that never logged a step,
        SILENT_START_S seconds of running ranks are enough, and the text states that no steps are logged.
        `wall`: now, unix seconds.
        """
        if self.steps >= PROOF_STEPS:
            return STEPS_AGAIN
        ran_s = wall - self.began
        if self.has_steps or ran_s <= SILENT_START_S:
            return None
        return f" and ran for at least {duration(ran_s)}; the job logs no steps"


class Resolution(Struct, frozen=True):
    """When an incident ended (unix seconds), and why."""

    at: float
    """Unix seconds; a later alert reopens the incident."""
    reason: str


def attempts(fleet: Fleet, places: Places, now: float, wall: float) -> dict[str, Attempt]:
    """Return job -> its living attempt, without ranks that two nodes claim.

    `now`: the fleet's clock, `wall`: unix seconds at the same moment.
    """
    began: dict[str, float] = {}
    nodes: dict[str, set[str]] = {}
    for node in fleet.nodes.values():
        for process in node.processes:
            if process.rank is None or process.job is None or process.start is None:
                continue
            if (process.job, process.rank, node.name) not in places.contested:
                start = process.start - node.offset_s
                began[process.job] = min(start, began.get(process.job, start))
                nodes.setdefault(process.job, set()).add(node.name)
    steps: dict[str, int] = {}
    newest: dict[str, float] = {}
    last: dict[str, list[LastStep]] = {}
    for writer in fleet.progress.writers.values():
        if writer.job in began and writer.stepped_at is not None:
            since = began[writer.job] - wall + now
            reported = sum(
                step.at >= since for step in writer.curve()[-PROOF_STEPS:]
            )  # also attempts from before the session began
            steps[writer.job] = max(reported, steps.get(writer.job, 0))
            newest[writer.job] = max(writer.stepped_at - now + wall, newest.get(writer.job, 0.0))
            end = writer.curve()[-1:]
            last.setdefault(writer.job, []).extend(
                LastStep(writer.node, writer.file, writer.rank, step.offset, step.at - now + wall)
                for step in end
            )
    return {
        job: Attempt(
            start,
            steps.get(job, 0),
            job in steps,
            newest.get(job),
            tuple(last.get(job, ())),
            frozenset(nodes[job]),
        )
        for job, start in began.items()
    }


class JobAttempts(Struct, frozen=True):
    """The attempts of all jobs."""

    running: Mapping[str, Attempt] = {}
    """Job -> the living attempt of the job."""
    last: Mapping[str, int] = {}
    """Ended job -> number of its last attempt that trained."""
    resumed: Resumed = {}
    """Job -> when it resumed training (unix seconds)."""


def closings(
    incidents: Iterable[Incident],
    jobs: JobAttempts,
    places: Places,
    before: Mapping[str, Resolution],
    wall: float,
) -> dict[str, Resolution]:
    """Return incident id -> why it is closed; open incidents are left out.

    Args:
        incidents: All incidents.
        jobs: The attempts of their jobs.
        places: Where the ranks run.
        before: The previous result: a closed incident stays closed until it gets a new alert.
        wall: Unix seconds.
    """
    found = {}
    for incident in incidents:
        known = before.get(incident.id)
        closed = known if known is not None and incident.last <= known.at else None
        closed = closed or _closed(incident, jobs.running, places, wall)
        closed = closed or _resumed(incident, jobs.resumed.get(incident.job or "", ()), jobs.running, wall)
        closed = closed or _outlasted(incident, jobs.last.get(incident.job or ""), wall)
        if closed is not None:
            found[incident.id] = closed
    return found


def _failed_since(incident: Incident, recovered_at: float) -> bool:
    """Return True if an error came after `recovered_at` (unix seconds) and its rank has not recovered."""
    return any(
        each.severity in GRAVE and not (each.recovered or each.is_remark) and each.last > recovered_at
        for each in incident.alerts
    )


def _closed(
    incident: Incident, running: Mapping[str, Attempt], places: Places, wall: float
) -> Resolution | None:
    attempt, cause = _attempt_of(incident, running), incident.cause
    if attempt is not None and _is_of_before(incident, attempt):
        progress = attempt.progress(wall)
        if progress is not None:
            return Resolution(wall, f"restarted at {clock(attempt.began, wall)}{progress}")
    if attempt is not None and cause is not None and _is_back(cause, attempt):
        return Resolution(wall, f"{cause.node} responded again, and the job made steps")
    if attempt is not None and cause is not None and _is_left_behind(incident, cause, attempt):
        return Resolution(wall, "its ranks continued to train")
    recovered_at = None if cause is None or cause not in EXITS else cause.recovered_at
    outlived = (
        recovered_at is not None and wall - recovered_at > ATTEMPT_LISTED_S and not _fails_beside(incident)
    )
    if (
        cause is not None
        and recovered_at is not None
        and outlived
        and not _failed_since(incident, recovered_at)
    ):
        who = "the job" if cause.rank is None else f"rank {cause.rank}"
        return Resolution(wall, f"{who} continued at {clock(recovered_at, wall)}")
    if attempt is not None:
        return None
    if incident.code != HANG or incident.job is None:
        return None
    ends = [place.until for place in places.ranks if place.job == incident.job]
    if not ends or None in ends:
        return None
    last = max(end for end in ends if end is not None)
    return (
        Resolution(wall, f"its last rank ended at {clock(last, wall)}")
        if wall - last >= LAST_RANK_S
        else None
    )


def _attempt_of(incident: Incident, running: Mapping[str, Attempt]) -> Attempt | None:
    """Return the living attempt of an incident's job, or None.

    Two jobs that share a name get longer ones (`pretrain@10.0.0.7:29500`) while both run; an attempt of
    before may have the short one, or the reverse. Then the attempt on the incident's nodes is meant.
    """
    if incident.job is None or incident.job in running:
        return running.get(incident.job or "")
    base = incident.job.partition("@")[0]
    nodes = {each.node for each in incident.alerts} | {incident.node}
    found = [
        attempt for job, attempt in running.items() if job.partition("@")[0] == base and attempt.nodes & nodes
    ]
    return found[0] if len(found) == 1 else None


def _fails_beside(incident: Incident) -> bool:
    """Return True if an error of the incident other than a symptom has not recovered."""
    return any(
        alert.severity in GRAVE and alert.role not in ("hint", "echo") and alert.recovered_at is None
        for alert in incident.alerts
    )


def _resumed(
    incident: Incident, resumed: Sequence[Resumption], running: Mapping[str, Attempt], wall: float
) -> Resolution | None:
    """Return the resolution if the job resumed training after the last failure of the incident; else None.

    Failures after that belong to another incident. Within a second of a start, times do not decide;
    `_is_of_before` looks closer while the job runs.
    """
    failed = [alert for alert in incident.alerts if alert.severity in GRAVE and not alert.kernel]
    if not failed:
        return None
    earliest = _earliest(incident)
    last = max(alert.last if alert.timed and alert.count > 1 else alert.first for alert in failed)
    for each in resumed:
        apart_s = -APART_S if incident.job in running else APART_S
        if each.trained and earliest <= each.began + apart_s and last <= each.proved:
            return Resolution(wall, f"restarted at {clock(each.began, wall)}{STEPS_AGAIN}")
    return None


def _is_back(cause: Alert, attempt: Attempt) -> bool:
    """Return True if a lost node is connected again and the job has logged a step since."""
    lost = cause.code == "node_lost" and cause.state == "resolved"
    return lost and attempt.stepped_at is not None and attempt.stepped_at > cause.last + APART_S


def _is_left_behind(incident: Incident, cause: Alert, attempt: Attempt) -> bool:
    """Return True if the incident reports only a launcher's death, and its job logs steps again."""
    alone = all(alert.code == LAUNCHER_KILLED for alert in incident.alerts if alert.severity in GRAVE)
    stepped = attempt.stepped_at is not None and attempt.stepped_at > cause.last + ATTEMPT_LISTED_S
    return cause.code == LAUNCHER_KILLED and alone and stepped


def _outlasted(incident: Incident, last: int | None, wall: float) -> Resolution | None:
    """Return the resolution if a later attempt of an ended job than the incident's trained; else None.

    `last`: number of the job's last attempt that trained.
    """
    numbers = {attempt_of_path(alert.proof[0].file or "") for alert in incident.alerts} - {None}
    if last is None or not numbers or max(number for number in numbers if number is not None) >= last:
        return None
    return Resolution(wall, f"restarted; attempt {last} trained")


def _is_of_before(incident: Incident, attempt: Attempt) -> bool:
    """Return True if the incident happened before this attempt began and its cause has not recurred.

    Within a second of the start, times do not decide: the rank must have logged a step since.
    """
    cause = incident.cause
    before_s = attempt.began - _earliest(incident)
    if cause is None:
        return before_s > -APART_S
    if cause.timed and cause.count > 1 and cause.last > attempt.began + APART_S:
        return False
    return before_s > APART_S or (before_s > -APART_S and attempt.has_stepped_after(cause))


def _earliest(incident: Incident) -> float:
    """Return the earliest possible time of the cause (unix seconds), by the timestamps above its line."""
    cause = incident.cause
    if cause is None or cause.timed or cause.not_before is None:
        return incident.first
    return min(incident.first, cause.not_before)


def with_ends(before: Iterable[Alert], after: Iterable[Alert]) -> list[Alert]:
    """Return `after`; the end of a process that recovered keeps the severity that it has in `before`.

    The incident of a rank that resumed stays listed, and is closed with a reason.
    """
    grave = {alert.id: alert.severity for alert in before if alert in EXITS}
    return [
        structs.replace(alert, severity=grave[alert.id])
        if alert.recovered_at is not None and alert.id in grave
        else alert
        for alert in after
    ]


def with_closing(incident: Incident, closing: Resolution | None) -> Incident:
    """Return the incident; with a closing, as ended, with its reason and all alerts resolved."""
    if closing is None:
        return incident
    alerts = tuple(structs.replace(alert, state="resolved") for alert in incident.alerts)
    return structs.replace(incident, over=True, closed=closing.reason, alerts=alerts)
