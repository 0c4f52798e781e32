"""The clock of the demo, which waits for the simulated nodes: a busy machine slows the demo down."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from gpuwatch.clock import SessionClock
from gpuwatch.hosts.plan import Plan


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
        self._limit = math.inf
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        """Return the seconds of the clock: those of `real` without the time for which it stood still."""
        with self._lock:
            now = self._real() - self._behind_s
            late_s = max(0.0, now - self._limit)
            self._behind_s += late_s
            return now - late_s

    def wall(self) -> float:
        """Return the clock's time as unix seconds."""
        return self.monotonic() + self._ahead_s

    def behind_s(self) -> float:
        """Return the seconds for which the clock has stood still so far."""
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
