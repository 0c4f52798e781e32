"""The two clocks that everything is judged by; a replay has its own, which tells recorded time."""

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
"""This machine's."""
