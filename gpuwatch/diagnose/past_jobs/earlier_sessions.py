"""Failures of ended jobs that an earlier session recorded; their logs may not show them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import structs

from gpuwatch.diagnose.model.alert import RANK_INFERRED, Alert
from gpuwatch.diagnose.model.check_interval import CheckInterval
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.diagnose.past_jobs.jobs import ENDED_S, EndedJob, own_paths, share_project
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.ended_files import project_of
from gpuwatch.fleet.jobs.job_files import home
from gpuwatch.wire import Process

EVERY_S = 1.0
_NUMBER = re.compile(r"\d+")
FINISHED = "finished"
"""State of a job that reached its announced end."""


class EarlierJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A failed job that an earlier session watched: nodes, users, alerts, logs, checkpoint."""

    job: str
    nodes: tuple[str, ...]
    """Nodes of its ranks."""
    users: tuple[str, ...]
    """Users of its ranks."""
    ended: float
    """When the last of its ranks was no longer listed (unix seconds)."""
    alerts: tuple[Alert, ...]
    """Alerts of the job's incidents, without remarks."""
    checkpoint: Checkpoint | None = None
    """The last checkpoint of the job, as far as that session knew one."""
    logs: tuple[str, ...] = ()
    """Log files of the job's ranks; an ended job with one of these files is the same job."""
    commands: tuple[str, ...] = ()
    """The commands of its ranks, without numbers."""


class EarlierJobsWatch:
    """Stores the failures of an earlier session; `alerts` has those of jobs without newer data."""

    def __init__(self, jobs: Sequence[EarlierJob] = ()) -> None:
        self.jobs = jobs
        self.alerts: dict[str, Alert] = {}
        self.names: frozenset[str] = frozenset()
        """Names of the jobs with alerts of the earlier session."""
        self.checkpoints: dict[str | None, Checkpoint] = {}
        """Job -> the last checkpoint that the earlier session knew."""
        placed = [
            alert
            for job in jobs
            for alert in job.alerts
            if alert.rank is not None and alert.rank_from == "process" and RANK_INFERRED not in alert.fields
        ]
        self._placed = {alert.id: alert for alert in placed}
        """Id -> alert, for alerts whose rank the earlier session knew by a process."""
        self._placed_lines = {line: alert for alert in placed if (line := _line(alert)) is not None}
        self._interval = CheckInterval(EVERY_S)
        self._logs_version = -1
        self._over: set[str] = set()
        """Names of jobs that ran again, or whose users started other jobs since."""

    def go(self, fleet: Fleet, ended: Sequence[EndedJob], now: float, wall: float) -> bool:
        """Check at intervals and when log files were listed; return True if the alerts changed.

        `now`: monotonic, `wall`: unix seconds.
        """
        if fleet.logs_version != self._logs_version:
            self._interval.hurry()
        if not self.jobs or not self._interval.is_due(now):
            return False
        self._logs_version = fleet.logs_version
        before = self.alerts
        self._over.update(each.job for each in self.jobs if _is_over(each, fleet, wall))
        found: list[Alert] = []
        self.checkpoints = {}
        for each in self.jobs:
            if each.job not in self._over and any(node in fleet.nodes for node in each.nodes):
                alerts = list(_unread(each, fleet, ended))
                found += alerts
                if each.checkpoint is not None:
                    self.checkpoints.update((alert.job, each.checkpoint) for alert in alerts)
        self.alerts = {alert.id: alert for alert in found}
        self.names = frozenset(alert.job for alert in found if alert.job is not None)
        return self.alerts != before

    def completed(self, known: Sequence[Alert]) -> list[Alert]:
        """Return the alerts of this session and of the earlier one.

        A line without a rank or node gets the rank and node that the earlier session knew while the process
        was listed, also if other nodes see its file now.
        """
        ids = {alert.id for alert in known}
        return [
            *map(self._on_its_rank, known),
            *(each for each in self.alerts.values() if each.id not in ids),
        ]

    def _on_its_rank(self, alert: Alert) -> Alert:
        if alert.rank is not None and alert.node is not None:
            return alert
        line = _line(alert)
        earlier = self._placed.get(alert.id) or (None if line is None else self._placed_lines.get(line))
        if earlier is None or alert.rank not in (None, earlier.rank):
            return alert
        return structs.replace(alert, rank=earlier.rank, rank_from="process", node=alert.node or earlier.node)


def _line(alert: Alert) -> tuple[str, str, int] | None:
    """Return code, file and offset of an alert from a log line; None: it is from none, or of the kernel."""
    proof = alert.proof[0] if alert.proof else None
    if proof is None or proof.file is None or proof.offset is None or alert.kernel:
        return None
    return alert.code, proof.file, proof.offset


def _is_over(job: EarlierJob, fleet: Fleet, wall: float) -> bool:
    """Return True if the job is too old, runs again, or its user later started it anew on its nodes.

    That is a rank of the same command or project; another job does not show that its user knows of the end.
    """
    projects = {path: project_of(home(path)) for path in job.logs}
    if wall - job.ended > ENDED_S:
        return True
    for node in fleet.nodes.values():
        for process in node.processes:
            if process.rank is None or process.state == "Z":
                continue
            began = None if process.start is None else process.start - node.offset_s
            later = began is not None and began > job.ended
            here = later and node.name in job.nodes and process.user in job.users
            if process.job == job.job or (here and _is_alike(process, job.commands, projects)):
                return True
    return False


def _is_alike(process: Process, commands: Collection[str], projects: Mapping[str, str]) -> bool:
    """Return True if a process runs one of the commands, or writes or runs files of one of the projects."""
    if process.command is not None and without_numbers(process.command) in commands:
        return True
    return any(share_project(path, projects) for path in own_paths(process))


def without_numbers(command: str) -> str:
    """Return a command with `#` for each number: ports, ranks and seeds differ from start to start."""
    return _NUMBER.sub("#", command)


def _unread(job: EarlierJob, fleet: Fleet, ended: Iterable[EndedJob]) -> Iterator[Alert]:
    """Yield the job's alerts that this session cannot read from a log, under the ended job's current name.

    Yield none if this session sees that the job finished.
    """
    files = {proof.file for alert in job.alerts for proof in alert.proof if proof.file is not None}
    logs = files | set(job.logs)
    same = [each for each in ended if each.name == job.job or logs & {path for _, path in each.files}]
    if any(each.end.state == FINISHED for each in same):
        return
    read = {file.path: file.job for node in fleet.nodes.values() for file in node.logs}
    now = next((read[path] for path in sorted(logs) if read.get(path) is not None), None)
    name = same[0].name if same else now or job.job
    for alert in job.alerts:
        if alert.proof[0].file not in read:
            yield structs.replace(alert, job=name)


def failures(alerts: Iterable[Alert], most: int, inferred: int | None = None) -> tuple[Alert, ...]:
    """Return the alerts of an incident in the short form that is stored, without remarks.

    `most`: the maximum number of alerts. `inferred`: the rank among them whose number is inferred.
    """
    kept = [alert for alert in alerts if not alert.is_remark and alert.proof][:most]
    kept = [
        alert
        if inferred is None or alert.rank != inferred
        else structs.replace(alert, fields={**alert.fields, RANK_INFERRED: 1})
        for alert in kept
    ]
    return tuple(
        structs.replace(
            alert, proof=tuple(structs.replace(each, lines=(), key=0) for each in alert.proof[:2])
        )
        for alert in kept
    )
