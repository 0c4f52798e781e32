"""The worker's watchdog: a suspended launcher cannot notice that the conductor is gone."""

from __future__ import annotations

import os
import signal
import time
from typing import NoReturn


class LauncherWatchdog:
    """Kills the whole process group, including the launcher, if no line arrives for too long.

    It uses a timer of the kernel, no thread: it also ends a worker whose main thread waits for a line.

    Args:
        patience_s: Seconds without any line, even an empty one.
        deadline_s: Seconds from now, whatever is received; None: never.
    """

    def __init__(self, patience_s: float, deadline_s: float | None) -> None:
        self._patience_s = patience_s
        self._deadline = float("inf") if deadline_s is None else time.monotonic() + deadline_s

    def begin(self) -> None:
        """Start the timer. Call this in the main thread, after all forks."""
        signal.signal(signal.SIGALRM, lambda *_: _end_all())
        self.received()

    def received(self) -> None:
        """Restart the timer after a line was received."""
        left_s = self._deadline - time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(0.1, min(self._patience_s, left_s)))


def _end_all() -> NoReturn:
    """Kill the process group, which contains the launcher and everything that it started."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)
