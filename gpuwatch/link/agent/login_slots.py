"""Limits concurrent logins: a few are as fast as many, and spare bastions and directory services."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

LEASE_S = 2.0
"""Seconds after which a slow login loses its slot, so that dead nodes do not delay others."""


class ConnectSlots:
    """A semaphore for logins. A slot that is not returned within `lease_s` becomes free again."""

    def __init__(
        self, most: int, lease_s: float = LEASE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = max(1, most)
        self._lease_s = lease_s
        self._clock = clock
        self._changed = threading.Condition()
        self._taken: dict[object, float] = {}

    def take(self, given_up: Callable[[], bool]) -> object | None:
        """Wait for a login slot and return it, for `give`; return None if `given_up()` became true.

        `given_up` is checked again after each `wake`.
        """
        with self._changed:
            while not given_up():
                now = self._clock()
                self._taken = {slot: at for slot, at in self._taken.items() if now - at < self._lease_s}
                if len(self._taken) < self._most:
                    slot = object()
                    self._taken[slot] = now
                    return slot
                self._changed.wait(min(self._taken.values()) + self._lease_s - now)
            self._changed.notify()  # the wake-up that reached us may have been meant for a free slot
        return None

    def give(self, slot: object) -> None:
        """Give back a login slot; does nothing if its lease has expired."""
        with self._changed:
            if self._taken.pop(slot, None) is not None:
                self._changed.notify()

    def wake(self) -> None:
        """Make every thread that waits for a slot check `given_up` again."""
        with self._changed:
            self._changed.notify_all()
