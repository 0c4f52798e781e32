"""Comparing a node's clock with ours from pings and their replies."""

from __future__ import annotations

from collections import deque

from gpuwatch.link.inbox import ClockReading

WINDOW_S = 60.0
"""Long enough to find a quiet moment, short enough to follow a drifting clock (100 ppm: 6 ms)."""


class ClockComparison:
    """Keeps the comparison with the smallest error of the last minute, as NTP does (RFC 5905)."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, ClockReading]] = deque()
        self._told: ClockReading | None = None

    def add(self, now: float, our_time: float, their_time: float, round_trip_s: float) -> ClockReading | None:
        """Take one reply in.

        Args:
            now: Monotonic seconds at which the reply came.
            our_time: Our unix time at which it came.
            their_time: The node's unix time when it answered.
            round_trip_s: From the ping to the reply.

        Returns:
            The best reading, when it is another one than last time.
        """
        error = max(0.0, round_trip_s) / 2
        self._readings.append((now, ClockReading(offset_s=their_time - (our_time - error), error_s=error)))
        while self._readings[0][0] < now - WINDOW_S:
            self._readings.popleft()
        best = min((reading for _, reading in self._readings), key=lambda reading: reading.error_s)
        if best == self._told:
            return None
        self._told = best
        return best
