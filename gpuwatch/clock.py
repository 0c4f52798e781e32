"""The two clocks of every judgement; a replay has its own, which return recorded time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class SessionClock:
    """A monotonic clock (seconds) and the wall clock (unix seconds)."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


SYSTEM = SessionClock()
"""The clocks of this machine."""
