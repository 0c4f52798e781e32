"""How often something is looked at that costs too much for every update."""

from __future__ import annotations


class CheckInterval:
    """States when the next look is due, on a monotonic clock."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._at = float("-inf")

    def is_due(self, now: float) -> bool:
        """Whether to look now; the next look is then due after `every_s`."""
        due = now - self._at >= self._every_s
        if due:
            self._at = now
        return due

    def hurry(self) -> None:
        """Make the next look due at once."""
        self._at = float("-inf")
