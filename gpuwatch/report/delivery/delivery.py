"""Delivers a session's incidents to all receivers; `update` waits for neither network nor disk."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.hosts.receivers import ReceiverSpec
from gpuwatch.own_folders import make_own
from gpuwatch.report.delivery.ledger import Ledger
from gpuwatch.report.delivery.sender import Pace, ReceiverStatus, Sender

CLOSE_S = 3.0
"""Seconds for which `close` delivers what is due; the rest stays in the state file."""
EVERY_S = 1.0
TRY_LOCK_S = 10.0


class Delivery:
    """Delivers incidents to receivers, unless another process of this user does so for the same source."""

    def __init__(
        self,
        receivers: Sequence[ReceiverSpec],
        source: str,
        folder: Path,
        pace: Pace | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Prepare; nothing is read or sent before `update`.

        Args:
            receivers: Where to deliver.
            source: The source of the plan; a path is made absolute, so that it is the same from every folder.
            folder: The folder of the state files.
            pace: The delays, if other than the default; for tests.
            wall: Returns the current time in unix seconds.
        """
        self.receivers = tuple(receivers)
        self._pace, self._wall = pace or Pace(), wall
        self._source = str(Path(source).resolve()) if Path(source[:4096]).is_file() else source
        name = sha256(self._source.encode()).hexdigest()[:12]
        self._path = folder / f"delivery-{name}.json"
        self._ledger: Ledger | None = None
        self._lock = threading.RLock()
        self._held: int | None = None
        """Descriptor of the lock held by the delivering process."""
        self._senders: list[Sender] = []
        self._trouble = ""
        self._due_at = self._lock_at = 0.0

    def update(self, incidents: Sequence[Incident]) -> None:
        """Record the current incidents, at most once a second, and wake the senders if something changed.

        Nothing while another process of this user delivers for the source.
        """
        now = time.monotonic()
        if not self.receivers or now < self._due_at:
            return
        self._due_at = now + EVERY_S
        if self._ledger is None and not self._begin(now):
            return
        ledger = self._ledger
        if ledger is None:
            return
        with self._lock:
            before = ledger.version
            ledger.take(incidents, self._wall())
            changed = ledger.version != before
        for sender in self._senders if changed else ():
            sender.wake()

    def _begin(self, now: float) -> bool:
        """Acquire the lock for this source, if it is free, and start.

        Return True if this process delivers.
        """
        if now < self._lock_at:
            return False
        self._lock_at = now + TRY_LOCK_S
        try:
            make_own(self._path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._held = os.open(self._path.with_suffix(".lock"), flags, 0o600)
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if self._held is not None:
                os.close(self._held)
                self._held = None
            another = isinstance(error, BlockingIOError)
            self._trouble = "" if another else f"incidents are not delivered: {error}"
            return False
        self._trouble = ""
        self._ledger = Ledger(self._path, self._source, self._pace.settle_s)
        self._senders = [
            Sender(spec, self._ledger, self._lock, self._pace, self._wall) for spec in self.receivers
        ]
        return True

    def status(self) -> list[ReceiverStatus]:
        """Return the state of each receiver; empty while another process delivers."""
        return [sender.status() for sender in self._senders]

    @property
    def trouble(self) -> str:
        """One line about failed deliveries or unsaved state; empty if there is no problem."""
        failing = [each for each in self.status() if each.error or each.lost]
        if failing:
            more = f" (+{len(failing) - 1})" if len(failing) > 1 else ""
            return f"alerts not delivered: {failing[0]}{more}"
        if self._ledger is not None and self._ledger.trouble:
            return f"the record of deliveries is not saved: {self._ledger.trouble}"
        return self._trouble

    def close(self) -> None:
        """Deliver for at most `CLOSE_S` seconds what is due; the rest stays in the state file."""
        until = time.monotonic() + CLOSE_S
        while time.monotonic() < until and any(s.waiting and not s.error for s in self.status()):
            time.sleep(0.05)
        for sender in self._senders:
            sender.close()
        for sender in self._senders:
            sender.thread.join(max(0.0, until - time.monotonic()))
        for sender in self._senders[:1]:
            sender.save()
        if self._held is not None:
            with contextlib.suppress(OSError):
                os.close(self._held)
            self._held = None
