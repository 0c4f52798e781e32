"""Repeats a slow query on a thread; the session takes the newest result."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class RepeatedQuery(Generic[Result]):
    """Calls a slow function at intervals on a thread.

    `start` it, `take` results after every poll, then `close`.
    """

    def __init__(self, query: Callable[[], Result], every_s: float, name: str) -> None:
        """Create the repeated query; nothing is called yet.

        Args:
            query: The function to call on the thread. It must not raise.
            every_s: Seconds between the end of one call and the next one.
            name: The name of the thread.
        """
        self._query, self._every_s, self._name = query, every_s, name
        self._result: Result | None = None
        self._changed = threading.Condition()
        self._closing = self._hurry = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; further calls do nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def take(self) -> Result | None:
        """Return the newest result that arrived since the last call, or None."""
        with self._changed:
            result, self._result = self._result, None
        return result

    def hurry(self) -> None:
        """Call the function now instead of at the end of the interval."""
        with self._changed:
            self._hurry = True
            self._changed.notify()

    def close(self) -> None:
        """Stop after the current call; does not wait for it."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def _run(self) -> None:
        while not self._closing:
            with self._changed:
                self._hurry = False
            result = self._query()
            with self._changed:
                self._result = result
                self._changed.wait_for(lambda: self._closing or self._hurry, self._every_s)
