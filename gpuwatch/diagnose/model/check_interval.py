"""Limits how often an expensive check runs; base class of the watches that check at intervals."""

from __future__ import annotations

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.fleet.fleet import Fleet


class CheckInterval:
    """Tracks when the next check is due, on a monotonic clock."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._at = float("-inf")

    def is_due(self, now: float) -> bool:
        """Return True if a check is due at `now` (monotonic); the next one is then due after `every_s`."""
        due = now - self._at >= self._every_s
        if due:
            self._at = now
        return due

    def hurry(self) -> None:
        """Make the next check due immediately."""
        self._at = float("-inf")


class PeriodicWatch:
    """Checks the fleet at most every `every_s` seconds; `alerts`: the firing and the resolved ones, by id."""

    def __init__(self, every_s: float) -> None:
        self._interval = CheckInterval(every_s)
        self.alerts: dict[str, Alert] = {}

    def go(self, fleet: Fleet, now: float, wall: float) -> bool:
        """Check the fleet if the interval has passed; return True if an alert fired, changed or ended.

        `now`: monotonic, `wall`: unix seconds.
        """
        return self._interval.is_due(now) and self._check(fleet, now, wall)

    def hurry(self) -> None:
        """Make the next `go` check the fleet, whatever the interval."""
        self._interval.hurry()

    def _check(self, fleet: Fleet, now: float, wall: float) -> bool:
        raise NotImplementedError
