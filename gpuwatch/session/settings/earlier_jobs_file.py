"""Stores jobs that failed while they were watched, for later sessions: their logs may not show the reason."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.past_jobs.earlier_sessions import EarlierJob, failures, without_numbers
from gpuwatch.diagnose.past_jobs.jobs import ENDED_S
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.own_folders import make_own
from gpuwatch.whole_file import lock_beside, read_own, write_whole

MAX_JOBS = 64
MAX_LOGS = 64
"""Most paths of log files per job."""
MAX_COMMANDS = 8
"""Most commands per job: ranks differ in numbers only."""
MAX_ALERTS = 16
"""Most alerts per job."""
MAX_FILE_BYTES = 8 << 20
NOTE_EVERY_S = 2.0
WRITE_EVERY_S = 10.0
GRAVE = ("error", "critical")
_decoder = msgspec.json.Decoder(list[EarlierJob])


def _inferred(incident: Incident) -> int | None:
    """Return the rank of an incident if its headline marks it as inferred (`~3`), else None."""
    return incident.rank if f"~{incident.rank} " in incident.headline else None


def _with_culprit(incident: Incident) -> list[Alert]:
    """Return the alerts of an incident; the cause gets the rank and node that the incident names.

    A later session has no processes from which it could determine them.
    """
    cause = incident.cause
    if cause is None or cause.rank is not None or incident.rank is None:
        return list(incident.alerts)
    placed = structs.replace(cause, rank=incident.rank, rank_from="process", node=incident.node)
    return [placed if each.id == cause.id else each for each in incident.alerts]


class RanJob(NamedTuple):
    """A job of which this session has seen ranks."""

    nodes: frozenset[str]
    users: frozenset[str]
    logs: frozenset[str]
    """Log files of its ranks."""
    commands: frozenset[str]
    """Their commands, without numbers."""

    def joined(self, other: RanJob) -> RanJob:
        """Return the union of both."""
        return RanJob(*(mine | theirs for mine, theirs in zip(self, other, strict=True)))


class EarlierJobsFile:
    """The file of failed jobs: read at the start, written when a watched job has failed.

    Jobs of other sessions are preserved.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ran: dict[str, RanJob] = {}
        """Jobs that had ranks in this session."""
        self._failed: dict[str, EarlierJob] = {}
        self._changed = False
        self._note_at = self._write_at = 0.0

    def read(self, wall: float) -> list[EarlierJob]:
        """Return the recently ended jobs in the file; empty if the file is missing or unusable.

        `wall`: unix seconds.
        """
        with suppress(OSError, *DECODE_ERRORS):
            stored = _decoder.decode(read_own(self._path, MAX_FILE_BYTES))
            return [each for each in stored if abs(wall - each.ended) <= ENDED_S]
        return []

    def note(self, fleet: Fleet, incidents: Iterable[Incident], now: float, wall: float) -> None:
        """Record the running jobs, and the unacknowledged grave incidents of those that have ended.

        Writes the file at intervals. `now`: monotonic, `wall`: unix seconds.
        """
        if now < self._note_at:
            return
        self._note_at = now + NOTE_EVERY_S
        running = _running(fleet)
        for job, ran in running.items():
            before = self._ran.get(job)
            self._ran[job] = ran if before is None else before.joined(ran)
            self._changed |= self._failed.pop(job, None) is not None
        for incident in incidents:
            seen = incident.over or incident.acknowledged
            ended = incident.job in self._ran and incident.job not in running
            if incident.job is not None and ended and not seen and incident.severity in GRAVE:
                self._keep(incident.job, incident, wall)
        if self._changed and now >= self._write_at:
            self._write_at = now + WRITE_EVERY_S
            self.write(wall)

    def _keep(self, job: str, incident: Incident, wall: float) -> None:
        known = self._failed.get(job)
        alerts = {each.id: each for each in (known.alerts if known is not None else ())}
        placed = _with_culprit(incident)
        alerts.update((each.id, each) for each in failures(placed, MAX_ALERTS, _inferred(incident)))
        ran = self._ran[job]
        kept = tuple(list(alerts.values())[:MAX_ALERTS])
        new = EarlierJob(
            job,
            tuple(sorted(ran.nodes)),
            tuple(sorted(ran.users)),
            wall if known is None else known.ended,
            kept,
            incident.checkpoint,
            tuple(sorted(ran.logs)[:MAX_LOGS]),
            tuple(sorted(ran.commands)[:MAX_COMMANDS]),
        )
        if kept and new != known:
            self._failed[job], self._changed = new, True

    def write(self, wall: float) -> None:
        """Write the jobs for later sessions if they have changed; a write error is ignored.

        `wall`: unix seconds.
        """
        if not self._changed:
            return
        self._changed = False
        with suppress(OSError):
            make_own(self._path.parent)
            with lock_beside(self._path):
                others = [each for each in self.read(wall) if each.job not in self._ran]
                newest = sorted([*others, *self._failed.values()], key=lambda each: each.ended)[-MAX_JOBS:]
                write_whole(self._path, msgspec.json.encode(newest) + b"\n")


def _running(fleet: Fleet) -> dict[str, RanJob]:
    """Return job -> nodes, users, log files and commands of its ranks, for each job with a running rank."""
    found: dict[str, tuple[set[str], ...]] = {}
    for node in fleet.nodes.values():
        for process in node.processes if node.spec.link != "demo" else ():
            if process.rank is not None and process.job is not None and process.state != "Z":
                none: tuple[set[str], ...] = (set(), set(), set(), set())
                nodes, users, logs, commands = found.setdefault(process.job, none)
                nodes.add(node.name)
                users.update([process.user] if process.user else ())
                logs.update(process.logs)
                commands.update([without_numbers(process.command)] if process.command else ())
    return {job: RanJob(*map(frozenset, parts)) for job, parts in found.items()}
