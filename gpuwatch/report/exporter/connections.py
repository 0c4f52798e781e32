"""The connections of the exporter: how many there may be, and how long one may take for a request."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class _RequestPhase:
    """What a connection does since when (monotonic seconds)."""

    is_answered: bool
    """Its request is complete; else it is waited for."""
    since: float


class Connections:
    """Every open connection, by its socket. For several threads."""

    def __init__(self, most: int, longest_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """None is open.

        Args:
            most: Connections at a time.
            longest_s: Until a request is complete, from the last answer on; and until its answer is taken.
            clock: Monotonic seconds.
        """
        self._most, self._longest_s, self._clock = most, longest_s, clock
        self._open: dict[socket.socket, _RequestPhase] = {}
        self._lock = threading.Lock()

    def add(self, line: socket.socket) -> bool:
        """Take one in, in place of the one that is idle for longest where there are too many.

        False: all of them are being answered.
        """
        with self._lock:
            if len(self._open) >= self._most:
                idle = [(phase.since, each) for each, phase in self._open.items() if not phase.is_answered]
                if not idle:
                    return False
                self._drop(min(idle, key=lambda pair: pair[0])[1])
            self._open[line] = _RequestPhase(is_answered=False, since=self._clock())
            return True

    def replace(self, line: socket.socket, secured: socket.socket) -> None:
        """The TLS socket takes the place of the one below it."""
        with self._lock:
            phase = self._open.pop(line, None)
            self._open[secured] = phase or _RequestPhase(is_answered=False, since=self._clock())
            if phase is None:  # it was dropped meanwhile
                self._drop(secured)

    def note(self, line: socket.socket, *, is_answered: bool) -> None:
        """Its request is complete, or the next one is waited for."""
        with self._lock:
            if line in self._open:
                self._open[line] = _RequestPhase(is_answered, self._clock())

    def remove(self, line: socket.socket) -> None:
        """It is closed."""
        with self._lock:
            self._open.pop(line, None)

    def end_overdue(self) -> None:
        """End those that take too long, however many bytes they send meanwhile."""
        until = self._clock() - self._longest_s
        with self._lock:
            for line in [each for each, phase in self._open.items() if phase.since < until]:
                self._drop(line)

    def _drop(self, line: socket.socket) -> None:
        """Wake the thread that waits for it: the connection then looks as if its client had left."""
        del self._open[line]
        with contextlib.suppress(OSError):
            socket.socket.shutdown(line, socket.SHUT_RDWR)  # a TLS socket's own would wait for its thread
