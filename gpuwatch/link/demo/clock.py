"""The clock of the demo, which waits for the simulated nodes: a busy machine slows the demo down."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from gpuwatch.clock import SessionClock
from gpuwatch.hosts.plan import Plan

CATCH_UP = 0.2
"""Share by which the clock is faster than the machine's while it is behind."""


class DemoClock:
    """A monotonic clock that stops at a limit until the limit is raised.

    One thread simulates all nodes. If it got too little CPU time, its frames would be late by the machine's
    clock, and simulated nodes would look stale.
    """

    def __init__(
        self, real: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        """Start the clock at the time of `real`; `wall` gives the unix time of that moment."""
        self._real = real
        self._ahead_s = wall() - real()
        self._behind_s = 0.0
        self._read_at = real()
        self._limit = math.inf
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        """Return the seconds of the clock: those of `real` without the time for which it stood still.

        After it stood still, it runs faster by `CATCH_UP` until it has caught up with `real`.
        """
        with self._lock:
            real = self._real()
            self._behind_s = max(0.0, self._behind_s - CATCH_UP * (real - self._read_at))
            self._read_at = real
            now = real - self._behind_s
            late_s = max(0.0, now - self._limit)
            self._behind_s += late_s
            return now - late_s

    def wall(self) -> float:
        """Return the clock's time as unix seconds."""
        return self.monotonic() + self._ahead_s

    def behind_s(self) -> float:
        """Return the seconds by which the clock is behind `real` because it stood still."""
        self.monotonic()
        return self._behind_s

    def stop_at(self, limit: float) -> None:
        """Set the time at which the clock stops, in seconds of `monotonic`; math.inf: never."""
        self.monotonic()  # time past the old limit does not count
        with self._lock:
            self._limit = limit

    def for_session(self) -> SessionClock:
        """Return the clock as the monotonic and wall clock that a session uses."""
        return SessionClock(self.monotonic, self.wall, self.behind_s)


def demo_clock(plan: Plan) -> DemoClock | None:
    """Return the clock for a plan with simulated nodes; None: no node is simulated."""
    return DemoClock() if any(spec.link == "demo" for spec in plan.nodes) else None
