"""Limits how often an expensive check runs, and tracks for how long what it finds has lasted."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.fleet.fleet import Fleet

Key = TypeVar("Key", bound=Hashable)


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


class UnbrokenTimes(Generic[Key]):
    """Tracks since when each key has been given at every update."""

    def __init__(self) -> None:
        self._since: dict[Key, float] = {}

    def update(self, keys: Iterable[Key], now: float) -> None:
        """Record the keys that are present now; all others are forgotten."""
        self._since = {key: self._since.get(key, now) for key in keys}

    def for_s(self, key: Key, now: float) -> float:
        """Return the seconds for which a key has been present; 0.0 if it is not."""
        return now - self._since.get(key, now)


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
