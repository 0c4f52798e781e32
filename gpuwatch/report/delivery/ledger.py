"""The ledger: which state of each incident every receiver has accepted; restarts repeat nothing.

It is saved on disk.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.own_folders import make_own
from gpuwatch.report.delivery.incident_texts import IncidentTexts, texts_of
from gpuwatch.whole_file import read_own, set_aside, write_whole
from gpuwatch.wire import Severity
from gpuwatch.wire.codec import decode_strictly

SETTLE_S = 8.0
"""Seconds for which an incident must be known before it is delivered.

After this time its headline names the first failure.
"""
GONE_S = 120.0
"""Seconds after which an incident that is no longer listed counts as resolved.

After a restart, the logs must be read again before it is listed.
"""
HISTORY_AFTER_S = 3600.0
"""An incident whose newest line is older than this when it is first seen is not delivered (seconds)."""
SAME_FIRST_S = 600.0
"""After a restart, an incident at the same place is the same one if it began within this many seconds."""
SAME_OTHER_JOB_S = 60.0
"""`SAME_FIRST_S` for a job with another name: an ended job is named by its folder, not by its launcher."""
KEPT_ENTRIES = 1_000
LOST_AFTER_S = 86_400.0
"""Seconds for which a resolved incident is offered to a failing receiver."""
MAX_STATE_BYTES = 16 << 20
Status: TypeAlias = Literal["firing", "resolved"]


class DamagedLedgerError(ValueError):
    """Raised if the state file is not a ledger."""


class AcceptedMessage(msgspec.Struct):
    """The last message about an incident that a receiver accepted."""

    status: Status
    severity: Severity
    at: float
    """Unix seconds."""


class LedgerEntry(msgspec.Struct):
    """The record of one incident, and what each receiver was sent about it."""

    fingerprint: str
    """Stable over restarts; the label `incident` in Alertmanager."""
    place: tuple[str | None, str, str | None, int | None, int | None]
    """Job, class, node, GPU and rank at the first delivery."""
    first: float
    severity: Severity
    texts: IncidentTexts
    seen: float
    """Time when the incident was last listed (unix seconds)."""
    over_at: float | None = None
    earlier: list[Severity] = []
    """Lower severities that were delivered earlier."""
    accepted: dict[str, AcceptedMessage] = msgspec.field(default_factory=dict, name="told")
    """Receiver key -> its last message."""

    @property
    def status(self) -> Status:
        """The status to report: firing or resolved."""
        return "firing" if self.over_at is None else "resolved"

    def due(self, receiver: str, status: Status | None = None) -> bool:
        """Return True if a receiver has not accepted the current status, or has accepted a lower severity.

        `status`: use this instead of the entry's status.
        """
        accepted, wanted = self.accepted.get(receiver), status or self.status
        if accepted is None or accepted.status != wanted:
            return True
        return wanted == "firing" and ORDER.index(self.severity) < ORDER.index(accepted.severity)


class Ledger:
    """The entries by fingerprint, oldest first. `version` changes with each modification; not thread-safe."""

    def __init__(self, path: Path, source: str, settle_s: float = SETTLE_S) -> None:
        self.path = path
        self.source = source
        self.entries: dict[str, LedgerEntry] = {}
        self.version = 0
        self.lost: dict[str, int] = {}
        """Receiver key -> number of incidents that will never be delivered to it."""
        self.trouble = ""
        """Why the state cannot be saved now."""
        self._settle_s = settle_s
        self._of: dict[str, str] = {}
        """Incident id in this session -> fingerprint."""
        self._first_seen: dict[str, float] = {}
        self._saved = 0
        self._writing = threading.Lock()
        self._started: float | None = None
        self._read()

    def _read(self) -> None:
        try:
            decoder = msgspec.json.Decoder(list[LedgerEntry])
            found = decode_strictly(read_own(self.path, MAX_STATE_BYTES), decoder, DamagedLedgerError)
            self.entries = {each.fingerprint: each for each in found}
        except FileNotFoundError:
            pass
        except OSError as error:
            self.trouble = f"{self.path}: {error.strerror}"
        except DamagedLedgerError:
            with contextlib.suppress(OSError):
                set_aside(self.path)

    def unsaved(self) -> bytes | None:
        """Return the bytes to write if anything changed since the last call, else None."""
        if self._saved == self.version:
            return None
        self._saved = self.version
        return msgspec.json.encode(list(self.entries.values()))

    def write(self, data: bytes) -> None:
        """Write the file; failure sets `trouble`. Needs no lock on the entries."""
        with self._writing:
            try:
                make_own(self.path.parent)
                write_whole(self.path, data)
                self.trouble = ""
            except OSError as error:
                self.trouble = f"{self.path}: {error.strerror}"

    def take(self, incidents: Iterable[Incident], wall: float) -> None:
        """Record the current state of all incidents above `info`. `wall`: unix seconds.

        A new one is recorded once it has been listed for the settling time, unless it is over or old by then.
        One that is no longer listed counts as resolved after `GONE_S`.
        """
        if self._started is None:
            self._started = wall
        incidents = list(incidents)
        listed = {incident.id for incident in incidents}
        delivered = [incident for incident in incidents if incident.severity != "info"]
        for incident in delivered:
            self._recognize(incident, is_at_same_place)
        for incident in delivered:
            entry = self._entry(incident, wall)
            if entry is not None:
                self._update(entry, incident, wall)
        self._first_seen = {name: at for name, at in self._first_seen.items() if name in listed}
        for entry in self.entries.values():
            if entry.over_at is None and wall - max(entry.seen, self._started) > GONE_S:
                entry.over_at = wall
                self.version += 1

    def _entry(self, incident: Incident, wall: float) -> LedgerEntry | None:
        """Return the entry of an incident, made if new; None if it is not to be delivered, or not yet."""
        known = self._known(incident)
        if known is not None:
            return known
        seen = self._first_seen.setdefault(incident.id, wall)
        if wall - seen < self._settle_s:
            return None
        self._recognize(incident, may_be_same)
        known = self._known(incident)
        if known is not None or incident.over or wall - incident.last > HISTORY_AFTER_S:
            return known
        place = _place(incident)
        text = repr((self.source, place, round(incident.first)))
        name = sha256(text.encode()).hexdigest()[:12]
        entry = LedgerEntry(name, place, incident.first, incident.severity, texts_of(incident), wall)
        self.entries[name] = entry
        self._of[incident.id] = name
        self.version += 1
        self._make_room()
        return entry

    def _known(self, incident: Incident) -> LedgerEntry | None:
        return self.entries.get(self._of.get(incident.id, ""))

    def _recognize(self, incident: Incident, is_same: Callable[[LedgerEntry, Incident], bool]) -> None:
        """Give the incident the entry of the same incident from an earlier session, unless it has an entry.

        `is_same`: compares an entry with an incident.
        """
        if self._known(incident) is not None:
            return
        taken = set(self._of.values())
        for entry in reversed(self.entries.values()):
            if entry.fingerprint not in taken and is_same(entry, incident):
                self._of[incident.id] = entry.fingerprint
                return

    def _update(self, entry: LedgerEntry, incident: Incident, wall: float) -> None:
        before = entry.status, entry.severity, entry.texts.headline
        entry.seen = wall
        if not incident.over:
            entry.over_at = None
        elif entry.over_at is None:
            entry.over_at = wall
        if ORDER.index(incident.severity) < ORDER.index(entry.severity):
            entry.earlier = [*entry.earlier, entry.severity]
            entry.severity = incident.severity
        if entry.texts.headline != incident.headline or entry.texts.confidence != incident.confidence:
            entry.texts = texts_of(incident)
        if before != (entry.status, entry.severity, entry.texts.headline):
            self.version += 1

    def _make_room(self) -> None:
        """Drop entries while there are too many: each time one of the node with the most entries.

        The oldest resolved entry of that node goes first, else its oldest.
        """
        while len(self.entries) > KEPT_ENTRIES:
            ((node, _),) = Counter(each.place[2] for each in self.entries.values()).most_common(1)
            names = [name for name, entry in self.entries.items() if entry.place[2] == node]
            over = (name for name in names if self.entries[name].over_at is not None)
            self._drop(next(over, names[0]))

    def _drop(self, name: str) -> None:
        entry = self.entries.pop(name)
        self.version += 1
        for receiver in entry.accepted:
            if entry.due(receiver):
                self.lost[receiver] = self.lost.get(receiver, 0) + 1

    def due(self, receiver: str, least: Severity, wall: float) -> Iterator[LedgerEntry]:
        """Yield the entries due for a receiver at severity `least` or above.

        Entries of the node with the fewest accepted messages come first, then the oldest: messages per minute
        are limited, and a node with many incidents must not delay others.

        Incidents that were resolved long ago are given up and counted as lost. `wall`: unix seconds.
        """
        sent = Counter(each.place[2] for each in self.entries.values() if receiver in each.accepted)
        for entry in sorted(self.entries.values(), key=lambda each: sent[each.place[2]]):
            if ORDER.index(entry.severity) > ORDER.index(least) or not entry.due(receiver):
                continue
            if entry.over_at is not None and wall - entry.over_at > LOST_AFTER_S:
                entry.accepted[receiver] = AcceptedMessage("resolved", entry.severity, wall)
                self.lost[receiver] = self.lost.get(receiver, 0) + 1
                self.version += 1
                continue
            yield entry

    def note(self, name: str, receiver: str, accepted: AcceptedMessage) -> None:
        """Record that a receiver accepted a message about the entry `name`, unless that was dropped."""
        if (entry := self.entries.get(name)) is not None:
            if entry.accepted.get(receiver) != accepted:
                self.version += 1
            entry.accepted[receiver] = accepted


def is_at_same_place(entry: LedgerEntry, incident: Incident) -> bool:
    """Return True if an entry has the place of an incident and began at about the same time."""
    return entry.place == _place(incident) and abs(entry.first - incident.first) <= SAME_FIRST_S


def may_be_same(entry: LedgerEntry, incident: Incident) -> bool:
    """Return True if an entry began at about the same time as an incident, at a place that may be the same.

    What is unknown of a place may be anything, and the job may have another name. A restarted session reads
    undated lines again: it may learn of a rank or a job that was unknown before.
    """
    job, code, *where = entry.place
    if code != incident.code or any(
        None not in (before, now) and before != now
        for before, now in zip(where, (incident.node, incident.gpu, incident.rank), strict=True)
    ):
        return False
    is_other_job = None not in (job, incident.job) and job != incident.job
    return abs(entry.first - incident.first) <= (SAME_OTHER_JOB_S if is_other_job else SAME_FIRST_S)


def _place(incident: Incident) -> tuple[str | None, str, str | None, int | None, int | None]:
    return incident.job, incident.code, incident.node, incident.gpu, incident.rank
