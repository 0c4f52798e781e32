"""Connections of the exporter, with limits on their number and on the time for a request."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

SLOW_S = 2.0
"""A client that has not taken its answer after so long may lose its place; Prometheus takes milliseconds."""


@dataclass
class _RequestPhase:
    """Phase of a connection, and its start (monotonic seconds)."""

    is_answered: bool
    """True if its request is complete and being answered; False: the request is awaited."""
    since: float
    is_sent: bool = False
    """True if the client has not taken the whole answer yet."""


class Connections:
    """Open connections by socket. Thread-safe."""

    def __init__(self, most: int, longest_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without connections.

        Args:
            most: Connections at a time.
            longest_s: Until a request is complete, from the last answer on; and until its answer is taken.
            clock: Monotonic seconds.
        """
        self._most, self._longest_s, self._clock = most, longest_s, clock
        self._open: dict[socket.socket, _RequestPhase] = {}
        self._lock = threading.Lock()

    def add(self, line: socket.socket) -> bool:
        """Add a connection; if there are too many, it replaces the longest idle one.

        Else it replaces one that does not take its answer. False: all connections are being answered.
        """
        with self._lock:
            if len(self._open) >= self._most:
                idle = [(phase.since, each) for each, phase in self._open.items() if not phase.is_answered]
                late = self._clock() - SLOW_S
                slow = [
                    (one.since, each) for each, one in self._open.items() if one.is_sent and one.since < late
                ]
                if not idle and not slow:
                    return False
                self._drop(min(idle or slow, key=lambda pair: pair[0])[1])
            self._open[line] = _RequestPhase(is_answered=False, since=self._clock())
            return True

    def replace(self, line: socket.socket, secured: socket.socket) -> None:
        """Replace a connection by the TLS socket over it."""
        with self._lock:
            phase = self._open.pop(line, None)
            self._open[secured] = phase or _RequestPhase(is_answered=False, since=self._clock())
            if phase is None:  # it was dropped meanwhile
                self._drop(secured)

    def note(self, line: socket.socket, *, is_answered: bool, is_sent: bool = False) -> None:
        """Record that its request is complete, its answer is being sent, or the next one is awaited."""
        with self._lock:
            if line in self._open:
                self._open[line] = _RequestPhase(is_answered, self._clock(), is_sent)

    def remove(self, line: socket.socket) -> None:
        """Remove a closed connection."""
        with self._lock:
            self._open.pop(line, None)

    def end_overdue(self) -> None:
        """Close the connections that take too long, however many bytes they send."""
        until = self._clock() - self._longest_s
        with self._lock:
            for line in [each for each, phase in self._open.items() if phase.since < until]:
                self._drop(line)

    def _drop(self, line: socket.socket) -> None:
        """Shut a connection down, which wakes the thread that waits for it."""
        del self._open[line]
        with contextlib.suppress(OSError):
            socket.socket.shutdown(line, socket.SHUT_RDWR)  # a TLS socket's own would wait for its thread
