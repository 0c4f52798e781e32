"""The pair of clocks by which a session judges; a replay substitutes clocks that return recorded time."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct


class SessionClock(Struct, frozen=True):
    """A monotonic clock (seconds) and the wall clock (unix seconds)."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    behind_s: Callable[[], float] = float
    """Seconds by which both are behind this machine's clocks; the demo's are, if they waited for CPU time."""


SYSTEM = SessionClock()
"""The clocks of this machine."""

SHIFT_S = 0.25
"""Growth of the clocks' difference (seconds) that is taken for a change of the wall clock."""
EARLIER_S = 0.001
"""Decrease of the clocks' difference (seconds) after which the smaller offset is used.

Its readings were closer together.
"""


class SteadyOffset:
    """Converts monotonic to wall time with one offset.

    The clocks are read one after the other, on a busy machine milliseconds apart. If each pair of readings
    gave a new offset, the wall time of one event would change from reading to reading.
    """

    def __init__(self) -> None:
        self._offset_s: float | None = None

    def wall(self, now: float, wall: float) -> float:
        """Return the wall time (unix seconds) at `now` (monotonic); `wall` was read at the same moment.

        The offset of an earlier reading is kept, unless this one is over `SHIFT_S` larger or `EARLIER_S`
        smaller.
        """
        offset_s = wall - now
        kept = self._offset_s
        if kept is None or not kept - EARLIER_S <= offset_s <= kept + SHIFT_S:
            self._offset_s = kept = offset_s
        return now + kept
