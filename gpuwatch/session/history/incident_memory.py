"""Stores the session's incidents in the history, and counts how often each kind was seen before.

A thread reads and writes the file, so that no screen waits for a disk.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Container, Sequence
from pathlib import Path

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.incident import (
    DAY_S,
    MAX_EARLIER,
    RECURRENCE_DAYS,
    EarlierIncident,
    Incident,
    Recurrence,
)
from gpuwatch.diagnose.model.text import place
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import Plan
from gpuwatch.session.history.incident_file import NAME, HistoryError, IncidentFile
from gpuwatch.session.history.places import MAX_COMPARED, IncidentsByPlace
from gpuwatch.session.history.seen_incident import SeenIncident, seen

VARIABLE = "GPUWATCH_INCIDENT_HISTORY"
"""Environment variable; with the value `off` the history is neither read nor written (used by the tests)."""
MAX_KEPT = 4_000
"""Most incidents of this session that are remembered; those on the screens are always."""
WRITE_EVERY_S = 5.0
WRITTEN_AT_ONCE = 500
"""Incidents of one transaction, which takes about 20 ms of CPU time.

What was stored stays, if the end of the session does not wait for the rest.
"""
CLOSE_S = 0.8
"""Seconds to wait for the file system at the end of a session, which takes at most a second."""


def keeps_history(plan: Plan) -> bool:
    """Return True if incidents are stored: not for the demo, nor if the environment variable turns it off."""
    return os.environ.get(VARIABLE) != "off" and not any(spec.link == "demo" for spec in plan.nodes)


class IncidentMemory:
    """The incident history of a running session.

    Call `start` once, `update` after every judgement, and `close` at the end of the session.
    """

    def __init__(self, folder: Path) -> None:
        """Create the history of incidents in the folder `folder`, which need not exist."""
        self._file = IncidentFile(folder / NAME)
        self._places: IncidentsByPlace | None = None
        """Incidents of earlier sessions, as of the start, and of this one; None: not read yet."""
        self._kept: dict[str, SeenIncident] = {}
        """Incident id -> its newest record that was passed to the writer thread, the oldest first."""
        self._stated: dict[str, Recurrence] = {}
        self._waiting: dict[str, SeenIncident] = {}
        """Incident id -> its newest record that is not stored yet."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._trouble: str | None = None
        self._reported = False
        self._now = 0.0
        self._version = -1

    def start(self) -> None:
        """Start the thread that reads and writes the history; this does not block."""
        self._thread = threading.Thread(target=self._run, name="incident history", daemon=True)
        self._thread.start()

    def take_trouble(self) -> str | None:
        """Return why the history cannot be read or written, the first time; afterwards None."""
        with self._changed:
            if self._trouble is None or self._reported:
                return None
            self._reported = True
            return self._trouble

    def update(self, book: AlertBook, fleet: Fleet, wall: float) -> None:
        """Pass new and changed incidents to the writer thread, and set their recurrence in the book.

        Does nothing before the history is read, which `start` begins. `wall`: unix seconds.
        """
        places = self._places
        if places is None or book.version == self._version:
            return
        now = {incident.id: seen(incident, fleet) for incident in book.incidents}
        new = {name: one for name, one in now.items() if self._kept.get(name) != one}
        # class and node -> the earliest start of an incident that is new there, or began at another time
        moved: dict[tuple[str, str | None], float] = {}
        for name, one in new.items():
            before = self._kept.pop(name, None)
            if before is None or _where(before) != _where(one):
                moved[one.code, one.node] = min(one.first, moved.get((one.code, one.node), one.first))
            if before is not None:
                places.remove(before)
            self._kept[name] = one
            places.add(one)
        self._forget(places, now)
        for incident in book.incidents:
            own = now[incident.id]
            if incident.id not in new and own.first < moved.get((own.code, own.node), float("inf")):
                continue
            again = recurrence(incident, own, places)
            if self._stated.get(incident.id) != again:
                self._stated[incident.id] = again
                book.keep_recurrence(incident.id, again)
        self._version = book.version
        if new:
            with self._changed:
                self._waiting.update(new)
                self._now = wall
                self._changed.notify()

    def _forget(self, places: IncidentsByPlace, now: Container[str]) -> None:
        """If more than `MAX_KEPT` incidents are kept, drop past ones until half of `MAX_KEPT` are left.

        Each time the oldest past incident of the node that has the most is dropped.
        """
        if len(self._kept) <= MAX_KEPT:
            return
        of_node: dict[str | None, list[str]] = {}
        for name, one in self._kept.items():
            if name not in now:
                of_node.setdefault(one.node, []).append(name)
        for _ in range(min(len(self._kept) - MAX_KEPT // 2, sum(map(len, of_node.values())))):
            name = max(of_node.values(), key=len).pop(0)
            places.remove(self._kept.pop(name))
            self._stated.pop(name, None)

    def close(self) -> None:
        """Write the remaining incidents; give up after `CLOSE_S` seconds if the disk does not respond."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        self._places = self._read()
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                taken, self._waiting = list(self._waiting.values()), {}
                now, closing = self._now, self._closing
            for at in range(0, len(taken), WRITTEN_AT_ONCE):
                self._write(taken[at : at + WRITTEN_AT_ONCE], now)
            if closing:
                return
            with self._changed:
                self._changed.wait_for(lambda: self._closing, WRITE_EVERY_S)

    def _read(self) -> IncidentsByPlace:
        found = IncidentsByPlace()
        try:
            for one in self._file.read()[::-1]:
                found.add(one)
        except HistoryError as error:
            self._tell(str(error))
        return found

    def _write(self, incidents: Sequence[SeenIncident], now: float) -> None:
        try:
            self._file.keep(incidents, now)
        except HistoryError as error:
            self._tell(str(error))

    def _tell(self, trouble: str) -> None:
        with self._changed:
            if self._trouble is None:
                self._trouble = trouble


def _where(one: SeenIncident) -> tuple[object, ...]:
    return one.code, one.node, one.gpu, one.uuid, one.first


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def recurrence_text(incident: Incident, count: int) -> str:
    """Return `third Xid 79 on n1 GPU 3 in 14 days` for the `count`th incident of its class there.

    "" for the first.
    """
    if count < 2:
        return ""
    ordinal = _ORDINALS[count - 1] if count <= len(_ORDINALS) else f"{count}th"
    ordinal = ordinal if count <= MAX_COMPARED else f"{MAX_COMPARED}th or later"
    xid = None if incident.cause is None else incident.cause.fields.get("xid")
    what = f"Xid {xid}" if xid is not None else incident.code
    where = place(None, incident.node, incident.gpu)
    return f"{ordinal} {what}{f' on {where}' if where else ''} in {RECURRENCE_DAYS} days"


def recurrence(incident: Incident, one: SeenIncident, places: IncidentsByPlace) -> Recurrence:
    """Return how often this class of incident occurred at its place in 14 days, including this time.

    The newest `MAX_EARLIER` are listed.
    """
    earlier = places.earlier(one, one.first - RECURRENCE_DAYS * DAY_S)
    return Recurrence(
        len(earlier) + 1,
        recurrence_text(incident, len(earlier) + 1),
        tuple(EarlierIncident(each.first, each.headline, each.job) for each in earlier[:MAX_EARLIER]),
    )
