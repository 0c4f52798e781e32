"""The delivery thread of one receiver.

It sends what the receiver has not accepted yet, with back-off after failures and a rate limit.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import msgspec
from msgspec import Struct

from gpuwatch.hosts.receivers import ReceiverSpec
from gpuwatch.link.stream.limits import TokenBucket
from gpuwatch.report.delivery.ledger import SETTLE_S, AcceptedMessage, Ledger, LedgerEntry, Status
from gpuwatch.report.delivery.messages import (
    alertmanager_post,
    facts_of,
    incident_post,
    status_for_alertmanager,
)
from gpuwatch.report.delivery.sending import NotDeliveredError, run_command, send

LONGEST_WAIT_S = 300.0
"""Longest back-off in seconds, varied by up to a quarter."""
MESSAGES_PER_S, MESSAGES_AT_ONCE = 0.5, 20.0
"""Rate limit of one receiver: messages per second, and burst.

An Alertmanager gets all incidents in one message.
"""
RESOLVED_FOR_S = 900.0
"""Seconds for which an Alertmanager gets resolved incidents, as from Prometheus: it may have restarted."""
POLL_S = 1.0


class Pace(Struct, frozen=True):
    """The delays of a delivery, in seconds."""

    settle_s: float = SETTLE_S
    """Seconds from an incident to its first message."""
    repeat_s: float = 60.0
    """Seconds between repeats to an Alertmanager, which drops alerts after 5 minutes."""
    firing_s: float = 60.0
    """Minimum number of seconds for which an incident is reported as firing.

    An Alertmanager groups for 30 s by default.
    """
    first_wait_s: float = 1.0
    """Seconds of back-off after the first failure; doubles with each further one."""


class ReceiverStatus(Struct, frozen=True):
    """The state of the delivery to one receiver."""

    name: str
    error: str
    """Why the last attempt failed; empty: it succeeded."""
    failing_s: float
    """Seconds since the failures began."""
    waiting: int
    """Incidents with undelivered changes."""
    delivered: int
    lost: int
    """Incidents that will never be delivered to it."""

    def __str__(self) -> str:
        parts = [f"{self.name}: {self.error or 'ok'}"]
        parts += [f"{self.waiting} waiting"] if self.waiting else []
        parts += [f"{self.lost} lost"] if self.lost else []
        return ", ".join(parts)


class Sender:
    """Delivers incidents to one receiver, on a thread that it starts. `wake` announces changes."""

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
        """Check for changes now."""
        self._awake.set()

    def close(self) -> None:
        """Stop after the current attempt; undelivered changes stay in the ledger."""
        self._closing.set()
        self._awake.set()

    def status(self) -> ReceiverStatus:
        """Return the current state of the receiver."""
        with self._lock:
            waiting = sum(1 for _ in self._ledger.due(self.spec.key, self.spec.min_severity, self._wall()))
            lost = self._ledger.lost.get(self.spec.key, 0)
        failing_s = time.monotonic() - self._failing_since if self._error else 0.0
        return ReceiverStatus(self.spec.name, self._error, failing_s, waiting, self._delivered, lost)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._awake.wait(POLL_S)
            self._awake.clear()
            try:
                self.save()
                while not self._closing.is_set() and self._deliver():
                    continue
            except NotDeliveredError as error:
                self._failed(error)
            except (
                Exception
            ) as error:  # a thread that ends would deliver nothing more, without an error message
                self._failed(NotDeliveredError(f"internal error, please report it: {type(error).__name__}"))

    def _failed(self, error: NotDeliveredError) -> None:
        """Record a failure and wait for the back-off; the message stays due."""
        if not self._error:
            self._failing_since = time.monotonic()
        self._error = str(error) or type(error).__name__
        wait_s = min(LONGEST_WAIT_S, self._pace.first_wait_s * 2**self._failures) * random.uniform(0.75, 1.25)  # noqa: S311 - jitter
        self._failures += 1
        self._closing.wait(max(wait_s, error.retry_after_s or 0.0))

    def _deliver(self) -> bool:
        """Send one message; return True if it had news, so that more may be due.

        Raises:
            NotDeliveredError: the attempt failed.
        """
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
        """Send an Alertmanager its active and recently resolved incidents, if one is new or it is time again.

        Incidents below the receiver's severity are left out. Return True if there was news, and it was sent.
        """
        wall, key = self._wall(), self.spec.key
        with self._lock:
            due = list(self._ledger.due(key, self.spec.min_severity, wall))
            known = [
                each for each in self._ledger.entries.values() if key in each.accepted and each not in due
            ]
            late = [each for each in known if each.over_at is None or wall - each.over_at < RESOLVED_FOR_S]
            sent = [
                (
                    msgspec.structs.replace(each, accepted=dict(each.accepted)),
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
        """Record which statuses the receiver accepted, with the time of the first message of each, and save.

        The receiver no longer counts as failing.
        """
        wall, key = self._wall(), self.spec.key
        self._error, self._failures = "", 0
        with self._lock:
            for entry, status in sent:
                accepted, same = entry.accepted.get(key), not entry.due(key, status)
                at = accepted.at if accepted is not None and same else wall
                self._ledger.note(entry.fingerprint, key, AcceptedMessage(status, entry.severity, at))
                self._delivered += not same
        self.save()

    def save(self) -> None:
        """Write the ledger if it changed; the lock is not held during disk access."""
        with self._lock:
            data = self._ledger.unsaved()
        if data is not None:
            self._ledger.write(data)
