"""Encodes alerts and incidents as records of a recording: the changes since the last one, or everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from msgspec import structs

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint
from gpuwatch.diagnose.past_jobs.jobs import EndedJob
from gpuwatch.link.recording.tee import IncidentMark
from gpuwatch.wire.codec import decode_strictly

MAX_MOMENT = 1.0e11
"""Largest time in unix seconds (year 5138), as in frames."""


class RecordedIncident(msgspec.Struct, frozen=True, omit_defaults=True):
    """An incident that refers to alerts by id; those that differ from the book's are stored whole (`own`)."""

    incident: Incident
    alerts: tuple[str, ...] = ()
    own: dict[str, Alert] = {}


class BookChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record: the changes since the previous one, or everything (`whole`), which replaces all before it."""

    whole: bool = False
    alerts: tuple[Alert, ...] = ()
    """New and changed alerts."""
    gone: tuple[str, ...] = ()
    incidents: tuple[RecordedIncident, ...] = ()
    order: tuple[str, ...] = ()
    """Ids of all incidents, in order."""
    alert_order: tuple[str, ...] | None = None
    """Ids of all alerts in order, if that is not the order of their arrival."""
    checkpoints: tuple[tuple[str | None, Checkpoint], ...] | None = None
    ended: tuple[EndedJob, ...] | None = None


class BookRecorder:
    """Makes records of the alert book: `change` has what is new since the last call, `whole` everything."""

    def __init__(self, book: Callable[[], AlertBook]) -> None:
        self._book = book
        self._version = -1
        self._alerts: dict[str, Alert] = {}
        self._incidents: dict[str, Incident] = {}
        self._checkpoints: dict[str | None, Checkpoint] = {}
        self._ended: tuple[EndedJob, ...] = ()
        self._marked: dict[str, tuple[str, str]] = {}

    def change(self) -> bytes | None:
        """Return the changes since the last call, encoded; None if there are none."""
        book = self._book()
        version = book.version
        if version == self._version and tuple(book.ended_jobs) == self._ended:
            return None
        self._version = version
        alerts = tuple(one for one in book.alerts.values() if self._alerts.get(one.id) != one)
        gone = tuple(name for name in self._alerts if name not in book.alerts)
        incidents = [one for one in book.incidents if self._incidents.get(one.id) != one]
        checkpoints = tuple(book.checkpoints.items()) if book.checkpoints != self._checkpoints else None
        ended = tuple(book.ended_jobs)
        order = tuple(one.id for one in book.incidents)
        same = not (alerts or gone or incidents or order != tuple(self._incidents) or checkpoints is not None)
        if same and ended == self._ended:
            return None
        made = BookChange(
            alerts=alerts,
            gone=gone,
            incidents=tuple(recorded(one, book.alerts) for one in incidents),
            order=order,
            alert_order=tuple(book.alerts) if alerts or gone else None,
            checkpoints=checkpoints,
            ended=ended if ended != self._ended else None,
        )
        self._alerts = dict(book.alerts)
        self._incidents = {one.id: one for one in book.incidents}
        self._checkpoints, self._ended = dict(book.checkpoints), ended
        return msgspec.json.encode(made)

    def whole(self) -> bytes:
        """Return the complete state as of the last `change`, as JSON bytes (a `BookChange`)."""
        made = BookChange(
            whole=True,
            alerts=tuple(self._alerts.values()),
            incidents=tuple(recorded(one, self._alerts) for one in self._incidents.values()),
            order=tuple(self._incidents),
            checkpoints=tuple(self._checkpoints.items()),
            ended=self._ended,
        )
        return msgspec.json.encode(made)

    def new_incidents(self, at: int) -> Iterable[IncidentMark]:
        """Yield a mark for each incident that is new or whose headline or severity changed.

        `at`: now, in microseconds of recorded time.
        """
        for one in self._incidents.values():
            state = one.headline, one.severity
            if self._marked.get(one.id) != state:
                self._marked[one.id] = state
                yield IncidentMark(one.id, one.number, at, one.first, one.severity, one.headline)


def recorded(incident: Incident, alerts: dict[str, Alert]) -> RecordedIncident:
    """Return the record of an incident.

    It refers to its alerts by id and includes those that differ from `alerts`.
    """
    own = {one.id: one for one in incident.alerts if alerts.get(one.id) != one}
    names = tuple(one.id for one in incident.alerts)
    return RecordedIncident(structs.replace(incident, alerts=()), names, own)


MAX_CHANGE_BYTES = 16 << 20
"""Largest record in bytes; the book of a session with 1,000 incidents has about 5 MB."""
_decoder: msgspec.json.Decoder[BookChange] = msgspec.json.Decoder(BookChange)


def read_change(body: bytes) -> BookChange:
    """Decode a record and sanitize its strings.

    Raises:
        ValueError: the record is too long or malformed, or contains an impossible time.
    """
    if len(body) > MAX_CHANGE_BYTES:
        raise ValueError(f"a record of {len(body)} bytes")
    change = decode_strictly(body, _decoder, ValueError)
    alerts = [*change.alerts, *(alert for one in change.incidents for alert in one.own.values())]
    times = [at for alert in alerts for at in (alert.first, alert.last)]
    times += [at for one in change.incidents for at in (one.incident.first, one.incident.last)]
    times += [proof.at for alert in alerts for proof in alert.proof if proof.at is not None]
    if not all(0.0 <= at <= MAX_MOMENT for at in times):
        raise ValueError("a time out of range")
    return change
