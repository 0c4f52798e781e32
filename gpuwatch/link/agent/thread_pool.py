"""Threads for calls that may block: one link's stuck socket must not delay another link's heartbeat."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable

IDLE_S = 5.0


class DaemonThreadPool:
    """Runs each job at once, in an idle or a new thread; threads exit after being idle for a while.

    Unlike the standard library's executor it uses daemon threads, so that a job that never returns cannot
    keep the program alive.
    """

    def __init__(self, name: str, idle_s: float = IDLE_S) -> None:
        self._name = name
        self._idle_s = idle_s
        self._wake = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False

    def run(self, job: Callable[[], None]) -> None:
        """Start a job on a thread; it must handle its own errors. After `close` it is dropped."""
        with self._wake:
            if self._closed:
                return
            self._jobs.append(job)
            if len(self._jobs) <= self._idle:
                self._wake.notify()
                return
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            with contextlib.suppress(
                RuntimeError
            ):  # no more threads are allowed: an existing one takes the job
                thread.start()
                self._threads.add(thread)

    def close(self, timeout_s: float) -> None:
        """Drop waiting jobs, let idle threads exit, and wait at most `timeout_s` for each busy one."""
        with self._wake:
            self._closed = True
            self._jobs.clear()
            self._wake.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join(timeout_s)

    def _work(self) -> None:
        while True:
            with self._wake:
                self._idle += 1
                waited = self._wake.wait_for(lambda: bool(self._jobs) or self._closed, self._idle_s)
                self._idle -= 1
                if not waited or not self._jobs:
                    self._threads.discard(threading.current_thread())
                    return
                job = self._jobs.popleft()
            job()
