"""The worker's own lifeline: a launcher that was stopped cannot see that the cockpit is gone."""

from __future__ import annotations

import os
import signal
import time
from typing import NoReturn


class LauncherWatchdog:
    """Ends the whole process group, the launcher with it, when nothing was received for too long.

    A timer of the kernel and no thread: it also ends a worker whose main thread waits for a line.

    Args:
        patience_s: Without a line, not even an empty one.
        deadline_s: From now, whatever is received; None: never.
    """

    def __init__(self, patience_s: float, deadline_s: float | None) -> None:
        self._patience_s = patience_s
        self._deadline = float("inf") if deadline_s is None else time.monotonic() + deadline_s

    def begin(self) -> None:
        """From now on silence counts. Call this in the main thread, after all forks."""
        signal.signal(signal.SIGALRM, lambda *_: _end_all())
        self.received()

    def received(self) -> None:
        """Something has come."""
        left_s = self._deadline - time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(0.1, min(self._patience_s, left_s)))


def _end_all() -> NoReturn:
    """The launcher made this group for itself and what it starts."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)
