"""Compares a node's clock with ours, from pings and replies."""

from __future__ import annotations

from gpuwatch.link.stream.inbox import ClockReading

WINDOW_S = 60.0
"""Seconds: long enough to include a quiet moment, short enough to follow drift (100 ppm: 6 ms)."""
SLEW_S = 0.1
"""Difference in seconds above which a clock change counts as a jump instead of slewing."""


class ClockComparison:
    """The offset of one node's clock: the reading with the smallest error in the last minute (RFC 5905).

    A reported reading stays as long as the best one agrees with it and has not less than half its error:
    every change of the offset moves the times of what the node has logged.
    """

    def __init__(self) -> None:
        self._readings: list[tuple[float, ClockReading]] = []
        self._reported: ClockReading | None = None

    def add(self, now: float, our_time: float, their_time: float, round_trip_s: float) -> ClockReading | None:
        """Add a reply to a ping; return the best reading if it has changed, else None.

        Args:
            now: Monotonic seconds at which the reply came.
            our_time: Our unix time at which it came.
            their_time: The node's unix time when it answered.
            round_trip_s: From the ping to the reply.
        """
        error = max(0.0, round_trip_s) / 2
        newest = ClockReading(offset_s=their_time - (our_time - error), error_s=error)
        kept = ((at, each) for at, each in self._readings if at >= now - WINDOW_S and _agree(each, newest))
        self._readings = [*kept, (now, newest)]
        best = min((reading for _, reading in self._readings), key=lambda reading: reading.error_s)
        if self._reported is not None and _still_right(self._reported, best):
            return None
        self._reported = best
        return best


def _still_right(reported: ClockReading, best: ClockReading) -> bool:
    """Return True if the best reading neither contradicts the reported one nor is twice as exact."""
    apart = abs(reported.offset_s - best.offset_s)
    return apart <= reported.error_s + best.error_s and best.error_s > reported.error_s / 2


def _agree(before: ClockReading, newest: ClockReading) -> bool:
    """Return True if two readings agree within their error bounds (no clock step in between)."""
    return abs(before.offset_s - newest.offset_s) <= before.error_s + newest.error_s + SLEW_S
