"""Stores jobs that failed while they were watched, for later sessions: their logs may not show the reason."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.past_jobs.earlier_sessions import EarlierJob, failures
from gpuwatch.diagnose.past_jobs.jobs import ENDED_S
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.own_folders import make_own
from gpuwatch.session.settings.kept_jobs import kept_jobs
from gpuwatch.session.settings.ran_jobs import RanJobs
from gpuwatch.whole_file import lock_beside, read_own, write_whole
from gpuwatch.wire.codec import decode_strictly

MAX_ALERTS = 16
"""Most alerts per job."""
MAX_FILE_BYTES = 8 << 20
NOTE_EVERY_S = 2.0
WRITE_EVERY_S = 10.0
GRAVE = ("error", "critical")
_decoder = msgspec.json.Decoder(list[EarlierJob])


class DamagedJobsError(ValueError):
    """Raised if the file does not contain failed jobs."""


def _inferred(incident: Incident) -> int | None:
    """Return the rank of an incident if its headline marks it as inferred (`~3`), else None."""
    return incident.rank if f"~{incident.rank} " in incident.headline else None


def _with_culprit(incident: Incident) -> list[Alert]:
    """Return the alerts of an incident; a cause without a rank gets the rank and node of the incident.

    A later session has no processes from which it could determine them.
    """
    cause = incident.cause
    if cause is None or cause.rank is not None or incident.rank is None:
        return list(incident.alerts)
    placed = structs.replace(cause, rank=incident.rank, rank_from="process", node=incident.node)
    return [placed if each.id == cause.id else each for each in incident.alerts]


class EarlierJobsFile:
    """The file of failed jobs: read at the start, written when a watched job has failed.

    Jobs of other sessions are preserved.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.ran = RanJobs()
        self._failed: dict[str, EarlierJob] = {}
        self._changed = False
        self._trouble: str | None = None
        """Why the file cannot be read; it is not overwritten then."""
        self._reported: str | None = None
        self._note_at = self._write_at = 0.0

    def read(self, wall: float) -> list[EarlierJob]:
        """Return the recently ended jobs in the file; empty if the file is missing or unusable.

        `wall`: unix seconds. An unusable file is left unchanged, and `take_trouble` returns the reason.
        """
        self._trouble = None
        stored: list[EarlierJob] = []
        try:
            stored = decode_strictly(read_own(self._path, MAX_FILE_BYTES), _decoder, DamagedJobsError)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._trouble = f"failed jobs cannot be read from {self._path}: {error.strerror}"
        except DamagedJobsError as error:
            self._trouble = f"{self._path} is not a file of failed jobs ({error}); move it away"
        return [each for each in stored if abs(wall - each.ended) <= ENDED_S]

    def take_trouble(self) -> str | None:
        """Return why the file cannot be read, with the remedy; None: it can, or that was returned before."""
        if self._trouble == self._reported:
            return None
        self._reported = self._trouble
        return self._trouble

    def note(self, fleet: Fleet, incidents: Iterable[Incident], now: float, wall: float) -> None:
        """Record the running jobs, and the unacknowledged grave incidents of those that have ended.

        Writes the file at intervals. `now`: monotonic, `wall`: unix seconds.
        """
        if now < self._note_at:
            return
        self._note_at = now + NOTE_EVERY_S
        self.ran.update(fleet)
        for job in self.ran.running.intersection(self._failed):
            del self._failed[job]
            self._changed = True
        for incident in incidents:
            seen = incident.over or incident.acknowledged
            ended = incident.job in self.ran and incident.job not in self.ran.running
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
        ran = self.ran[job]
        kept = tuple(list(alerts.values())[:MAX_ALERTS])
        new = EarlierJob(
            job,
            tuple(sorted(ran.nodes)),
            tuple(sorted(ran.users)),
            wall if known is None else known.ended,
            kept,
            incident.checkpoint,
            tuple(sorted(ran.logs)),
            tuple(sorted(ran.commands)),
        )
        if kept and new != known:
            self._failed[job], self._changed = new, True

    def write(self, wall: float) -> None:
        """Write the jobs for later sessions if they have changed; a write error is ignored.

        The file keeps at most MAX_JOBS of all sessions, the newest of each node in turn. `wall`: unix time.
        """
        if not self._changed:
            return
        self._changed = False
        with suppress(OSError):
            make_own(self._path.parent)
            with lock_beside(self._path):
                others = [each for each in self.read(wall) if each.job not in self.ran]
                if self._trouble is None:
                    kept = kept_jobs([*others, *self._failed.values()])
                    write_whole(self._path, msgspec.json.encode(kept) + b"\n")
