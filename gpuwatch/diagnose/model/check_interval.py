"""Limits how often an expensive check runs."""

from __future__ import annotations


class CheckInterval:
    """Tracks when the next check is due, on a monotonic clock."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._at = float("-inf")

    def is_due(self, now: float) -> bool:
        """True if a check is due now; the next one is then due after `every_s`."""
        due = now - self._at >= self._every_s
        if due:
            self._at = now
        return due

    def hurry(self) -> None:
        """Make the next check due immediately."""
        self._at = float("-inf")
