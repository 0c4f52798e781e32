"""The thread that monitors all connections to agents: it sends pings and closes silent ones."""

from __future__ import annotations

import threading
import time

from gpuwatch.link.agent.call import Call

PASS_S = 0.25


class Heartbeat:
    """Calls `Call.watch` of every connection four times a second."""

    def __init__(self, pass_s: float = PASS_S) -> None:
        self._pass_s = pass_s
        self._lock = threading.Lock()
        self._calls: set[Call] = set()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def add(self, call: Call) -> None:
        """Monitor a connection: ping its agent, and close the connection when it falls silent."""
        with self._lock:
            self._calls.add(call)
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
                self._thread.start()

    def discard(self, call: Call) -> None:
        """Stop monitoring a connection."""
        with self._lock:
            self._calls.discard(call)

    def close(self) -> None:
        """End the thread, and wait for it."""
        self._closing.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _beat(self) -> None:
        last = time.monotonic()
        while not self._closing.wait(self._pass_s):
            now = time.monotonic()
            overslept_s = max(0.0, now - last - 2 * self._pass_s)
            last = now
            with self._lock:
                calls = list(self._calls)
            for call in calls:
                call.watch(now, overslept_s)
