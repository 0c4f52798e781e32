"""Delays before a link reconnects."""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec import Struct


class RetryPace(Struct, frozen=True):
    """The delays between connection attempts: they double from `first_s` to `most_s`.

    A *final* failure (wrong key, changed host key, no Python) is retried too, because the user may fix it in
    another terminal, but slowly enough for lock-out rules: four attempts in ten minutes, where fail2ban's
    default allows five.
    """

    first_s: float = 1.0
    most_s: float = 8.0
    """Longest delay in seconds: a rebooting node is reconnected within 10 s of its sshd's return."""
    final_first_s: float = 60.0
    final_most_s: float = 600.0
    settled_s: float = 30.0
    """Seconds of live link after which delays start again at `first_s`."""


class Backoff:
    """Counts failures and computes the next delay.

    Random jitter keeps 200 links from reconnecting at once.
    """

    def __init__(self, pace: RetryPace, chance: Callable[[], float] = random.random) -> None:
        self._pace = pace
        self._chance = chance
        self._failures = 0

    def wait_s(self, *, final: bool, live_s: float) -> float:
        """Count a failure and return the seconds until the next attempt, by chance up to 25 % shorter.

        Args:
            final: A retry cannot help without the user.
            live_s: How long the link was live before it failed; 0 when it never was.
        """
        if live_s >= self._pace.settled_s:
            self._failures = 0
        first, most = (
            (self._pace.final_first_s, self._pace.final_most_s)
            if final
            else (self._pace.first_s, self._pace.most_s)
        )
        longest = min(most, first * 2.0 ** min(self._failures, 32))
        self._failures += 1
        return longest * (0.75 + 0.25 * self._chance())
