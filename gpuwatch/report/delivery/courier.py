"""One receiver's thread: tells it what it does not know, slowly after failures, never more than its rate."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from gpuwatch.hosts.receivers import ReceiverSpec
from gpuwatch.link.stream.limits import TokenBucket
from gpuwatch.report.delivery.ledger import SETTLE_S, Ledger, LedgerEntry, Status, Told
from gpuwatch.report.delivery.messages import (
    alertmanager_post,
    facts_of,
    incident_post,
    status_for_alertmanager,
)
from gpuwatch.report.delivery.sending import NotDeliveredError, run_command, send

LONGEST_WAIT_S = 300.0
"""The back-off after failures grows up to this, by up to a quarter more or less."""
MESSAGES_PER_S, MESSAGES_AT_ONCE = 0.5, 20.0
"""Of one receiver; an Alertmanager gets all incidents in one message."""
RESOLVED_FOR_S = 900.0
"""An Alertmanager is told of resolved incidents for so long, as by Prometheus: it may have been restarted."""
LOOK_S = 1.0


@dataclass(frozen=True)
class Pace:
    """How long is waited for what (seconds)."""

    settle_s: float = SETTLE_S
    """From an incident to its first message."""
    repeat_s: float = 60.0
    """An Alertmanager is told of firing incidents again after so long; it forgets them after 5 minutes."""
    firing_s: float = 60.0
    """And resolved ones are firing there for so long at least: it groups for 30 s by default."""
    first_wait_s: float = 1.0
    """After a failure; doubled with each further one."""


@dataclass(frozen=True)
class ReceiverStatus:
    """How a receiver does."""

    name: str
    error: str
    """Why the newest attempt failed; empty: it did not."""
    failing_s: float
    """How long that has lasted."""
    waiting: int
    """Incidents that it does not know the state of."""
    delivered: int
    lost: int
    """Incidents that it will never be told of."""

    def __str__(self) -> str:
        parts = [f"{self.name}: {self.error or 'ok'}"]
        parts += [f"{self.waiting} waiting"] if self.waiting else []
        parts += [f"{self.lost} lost"] if self.lost else []
        return ", ".join(parts)


class Courier:
    """Starts its thread when made; `wake` tells it that there is something new."""

    def __init__(
        self,
        spec: ReceiverSpec,
        ledger: Ledger,
        lock: threading.RLock,
        pace: Pace,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.spec = spec
        self._ledger, self._lock, self._wall = ledger, lock, wall
        self._pace = pace
        self._awake, self._closing = threading.Event(), threading.Event()
        self._rate = TokenBucket(MESSAGES_PER_S, MESSAGES_AT_ONCE)
        self._error, self._failing_since, self._failures = "", 0.0, 0
        self._delivered = 0
        self._posted_at = -pace.repeat_s
        self.thread = threading.Thread(target=self._run, name=f"deliver {spec.kind}", daemon=True)
        self.thread.start()

    def wake(self) -> None:
        """Look now."""
        self._awake.set()

    def close(self) -> None:
        """End after the attempt that is under way; what is not delivered stays in the ledger."""
        self._closing.set()
        self._awake.set()

    def status(self) -> ReceiverStatus:
        """How the receiver does now."""
        with self._lock:
            waiting = sum(1 for _ in self._ledger.due(self.spec.key, self.spec.min_severity, self._wall()))
            lost = self._ledger.lost.get(self.spec.key, 0)
        failing_s = time.monotonic() - self._failing_since if self._error else 0.0
        return ReceiverStatus(self.spec.name, self._error, failing_s, waiting, self._delivered, lost)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._awake.wait(LOOK_S)
            self._awake.clear()
            try:
                self.save()
                while not self._closing.is_set() and self._deliver():
                    continue
            except NotDeliveredError as error:
                self._failed(error)
            except Exception as error:  # a thread that ends would deliver nothing more, and say nothing
                self._failed(NotDeliveredError(f"internal error, please report it: {type(error).__name__}"))

    def _failed(self, error: NotDeliveredError) -> None:
        """Wait; what was to be told is still due."""
        if not self._error:
            self._failing_since = time.monotonic()
        self._error = str(error) or type(error).__name__
        wait_s = min(LONGEST_WAIT_S, self._pace.first_wait_s * 2**self._failures) * random.uniform(0.75, 1.25)  # noqa: S311
        self._failures += 1
        self._closing.wait(max(wait_s, error.retry_after_s or 0.0))

    def _deliver(self) -> bool:
        """Send one message; False: nothing is due, or the rate does not allow it yet."""
        if self.spec.kind == "alertmanager":
            return self._post_all()
        with self._lock:
            due = next(self._ledger.due(self.spec.key, self.spec.min_severity, self._wall()), None)
            entry = None if due is None else msgspec.structs.replace(due)
        if entry is None or not self._rate.spend(1.0, time.monotonic()):
            return False
        source = self._ledger.source
        if isinstance(self.spec.target, str):
            send(incident_post(self.spec, entry, source))
        else:
            run_command(self.spec.target, msgspec.json.encode(facts_of(entry, source)) + b"\n")
        self._note([(entry, entry.status)])
        return True

    def _post_all(self) -> bool:
        """An Alertmanager gets every incident that stands, and what was resolved of late."""
        wall, key = self._wall(), self.spec.key
        with self._lock:
            due = list(self._ledger.due(key, self.spec.min_severity, wall))
            known = [each for each in self._ledger.entries.values() if key in each.told and each not in due]
            late = [each for each in known if each.over_at is None or wall - each.over_at < RESOLVED_FOR_S]
            sent = [
                (
                    msgspec.structs.replace(each, told=dict(each.told)),
                    status_for_alertmanager(self.spec, each, wall, self._pace.firing_s),
                )
                for each in (*due, *late)
            ]
        again = time.monotonic() - self._posted_at >= self._pace.repeat_s
        new = [each for each, status in sent if each.due(key, status)]
        if not sent or not (new or again) or not self._rate.spend(1.0, time.monotonic()):
            return False
        self._posted_at = time.monotonic()
        send(alertmanager_post(self.spec, sent, self._ledger.source, wall), only_json=True)
        self._note(sent)
        return bool(new)

    def _note(self, sent: list[tuple[LedgerEntry, Status]]) -> None:
        """Keep what the receiver took; the time is that of the first message of this status."""
        wall, key = self._wall(), self.spec.key
        self._error, self._failures = "", 0
        with self._lock:
            for entry, status in sent:
                told, same = entry.told.get(key), not entry.due(key, status)
                at = told.at if told is not None and same else wall
                self._ledger.note(entry.fingerprint, key, Told(status, entry.severity, at))
                self._delivered += not same
        self.save()

    def save(self) -> None:
        """Write the ledger, if it changed; the disk is not waited for under the lock."""
        with self._lock:
            data = self._ledger.unsaved()
        if data is not None:
            self._ledger.write(data)
