"""Connections of the exporter, with limits on their number and on the time for a request."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

SLOW_S = 2.0
"""A client that has not read its answer after this many seconds may be disconnected for another one.

Prometheus takes milliseconds.
"""

MIN_PLACES = 4
SHARE = 0.25
"""Fraction of the connections that one address may keep while others wait."""


@dataclass
class _RequestPhase:
    """The phase of a connection, and its start (monotonic seconds)."""

    is_answered: bool
    """True if its request is complete and being answered; False: the request is awaited."""
    since: float
    is_sent: bool = False
    """True if the client has not taken the whole answer yet."""
    address: str = ""
    """The address of the client."""


class Connections:
    """Open connections by socket. Thread-safe."""

    def __init__(self, most: int, longest_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without connections.

        Args:
            most: Maximum number of connections.
            longest_s: Seconds for receiving a whole request since the last answer, and for sending an answer.
            clock: Monotonic seconds.
        """
        self._most, self._longest_s, self._clock = most, longest_s, clock
        self._open: dict[socket.socket, _RequestPhase] = {}
        self._lock = threading.Lock()

    def add(self, line: socket.socket, address: str = "") -> bool:
        """Add a connection; return False if there are too many and none may be closed for it.

        The connection that has waited longest for a request, or for its client to read the answer, is closed;
        else the oldest one of the address that has more than its share: one client cannot keep others out.
        """
        with self._lock:
            if len(self._open) >= self._most:
                loser = self._longest_idle() or self._greedy(address)
                if loser is None:
                    return False
                self._drop(loser)
            self._open[line] = _RequestPhase(is_answered=False, since=self._clock(), address=address)
            return True

    def _longest_idle(self) -> socket.socket | None:
        late = self._clock() - SLOW_S
        idle = [(phase.since, each) for each, phase in self._open.items() if not phase.is_answered]
        slow = [(one.since, each) for each, one in self._open.items() if one.is_sent and one.since < late]
        return min(idle or slow, key=lambda pair: pair[0])[1] if idle or slow else None

    def _greedy(self, address: str) -> socket.socket | None:
        """Return the oldest connection of the address with the most; None if that has no more than its share.

        The share is `SHARE` of all places, and at least `MIN_PLACES` and the number of connections of
        `address`.
        """
        counts = Counter(phase.address for phase in self._open.values())
        most, count = counts.most_common(1)[0]
        others = 0 if most == address else counts[address]
        if count <= max(MIN_PLACES, self._most * SHARE, others):
            return None
        return next(each for each, phase in self._open.items() if phase.address == most)

    def replace(self, line: socket.socket, secured: socket.socket) -> None:
        """Record the TLS socket `secured` in place of the socket `line`."""
        with self._lock:
            phase = self._open.pop(line, None)
            self._open[secured] = phase or _RequestPhase(is_answered=False, since=self._clock())
            if phase is None:  # it was dropped meanwhile
                self._drop(secured)

    def note(self, line: socket.socket, *, is_answered: bool, is_sent: bool = False) -> None:
        """Record the phase of a connection.

        `is_answered`: its request is complete and being answered; False: the next request is awaited.
        `is_sent`: the client is reading the answer.
        """
        with self._lock:
            if line in self._open:
                self._open[line] = _RequestPhase(
                    is_answered, self._clock(), is_sent, self._open[line].address
                )

    def remove(self, line: socket.socket) -> None:
        """Remove a closed connection."""
        with self._lock:
            self._open.pop(line, None)

    def end_overdue(self) -> None:
        """Close the connections that have been in their phase for longer than `longest_s`."""
        until = self._clock() - self._longest_s
        with self._lock:
            for line in [each for each, phase in self._open.items() if phase.since < until]:
                self._drop(line)

    def _drop(self, line: socket.socket) -> None:
        """Shut a connection down, which wakes the thread that waits for it."""
        del self._open[line]
        with contextlib.suppress(OSError):
            socket.socket.shutdown(line, socket.SHUT_RDWR)  # a TLS socket's own would wait for its thread
