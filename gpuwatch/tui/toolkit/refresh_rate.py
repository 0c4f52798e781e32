"""The repaint rate: as set by the user, halved while painting uses too much CPU."""

from __future__ import annotations

MAX_HZ = 30
MIN_HZ = 1
CPU_BUDGET = 0.25
"""Fraction of one core for the screen's thread."""
PATIENCE_S = 3.0


class RefreshRate:
    """The repaint rate `hz`; `frame` halves it after 3 s over a quarter of a core."""

    def __init__(self, hz: float) -> None:
        self.hz = min(MAX_HZ, max(MIN_HZ, hz))
        self.slowed = False
        """True if the rate was halved because frames cost too much."""
        self._last: tuple[float, float] | None = None
        self._over_budget_s = 0.0

    def frame(self, now: float, cpu: float) -> bool:
        """Note one frame; return True if the rate was halved because of it.

        Args:
            now: Monotonic seconds.
            cpu: Seconds of CPU that the screen's thread has used so far.
        """
        last, self._last = self._last, (now, cpu)
        if last is None or now <= last[0]:
            return False
        wall, spent = now - last[0], cpu - last[1]
        self._over_budget_s = self._over_budget_s + wall if spent > CPU_BUDGET * wall else 0.0
        if self._over_budget_s < PATIENCE_S or self.hz <= MIN_HZ:
            return False
        self._over_budget_s, self.slowed = 0.0, True
        self.hz = max(MIN_HZ, self.hz / 2)
        return True

    def faster(self) -> None:
        """Double the rate, to at most `MAX_HZ`, as requested by the user."""
        self.hz, self.slowed, self._over_budget_s = min(MAX_HZ, self.hz * 2), False, 0.0

    def slower(self) -> None:
        """Halve the rate, to at least `MIN_HZ`, as requested by the user."""
        self.hz, self.slowed, self._over_budget_s = max(MIN_HZ, self.hz / 2), False, 0.0
