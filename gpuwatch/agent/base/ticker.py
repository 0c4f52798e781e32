"""The common tick: starts all readers together, and signals when the released ones are done."""

import threading
import traceback
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

KEPT_EVENTS = 500


class Ticker(object):
    """Releases the readers once per tick. A late reader misses ticks; nothing waits for it."""

    def __init__(self, wake: "Callable[[], None]", interval_s: float) -> None:
        self.interval_s = interval_s
        """Seconds between ticks, as currently requested."""
        self.wake = wake
        """Callback that wakes the emitter."""
        self._condition = threading.Condition()
        self._tick = 0
        self._waiting = 0
        self._busy = 0

    def tick(self) -> None:
        """Release every waiting reader thread; one that is still working misses this tick."""
        with self._condition:
            self._tick += 1
            self._busy, self._waiting = self._waiting, 0
            self._condition.notify_all()

    def done(self) -> bool:
        """Return True if every thread released by the last tick has finished."""
        return self._busy == 0

    def next(self, tick: int) -> int:
        """Report that the work of `tick` is done (0: none); wait for the next tick and return its number."""
        with self._condition:
            if not tick:
                self.wake()  # the first hello waits for this
            elif tick == self._tick:
                self._busy -= 1
                if not self._busy:
                    self.wake()
            now = self._tick
            self._waiting += 1
            while self._tick == now:
                self._condition.wait()
            return self._tick


class Reader(object):
    """A thread that reads something once per tick and appends the results to `found`."""

    def __init__(self, name: str, ticker: "Ticker", events: "deque[dict[str, Any]]") -> None:
        self.name = name
        self.found: deque[tuple[str, Any]] = deque(maxlen=64)
        """(kind, value) pairs, oldest first; the emitter takes them."""
        self.events = events
        self.ended = False
        """Set by `read` when nothing is left to do."""
        self._ticker = ticker
        self._trouble = ""

    def start(self) -> None:
        """Start the thread, which lives as long as the process."""
        thread = threading.Thread(target=self._run, name=self.name)
        thread.daemon = True
        thread.start()

    def read(self, tick: int) -> None:
        """Read once, and append the results to `found`. Tick 0 is the first time, before any tick."""
        raise NotImplementedError

    def _run(self) -> None:
        tick = 0
        while True:
            try:
                self.read(tick)
            except Exception as error:  # one bad reading must not end the thread; it is reported once
                self._report(error)
            if self.ended:
                return
            tick = self._ticker.next(tick)

    def _report(self, error: Exception) -> None:
        trouble = traceback.format_exc()
        if trouble == self._trouble:
            return
        self._trouble = trouble
        where = trouble.strip().splitlines()[-3:]
        self.events.append({
            "event": "agent", "severity": "warning", "source": "agent",
            "title": "{}: {}".format(self.name, type(error).__name__), "detail": " | ".join(where)[:500],
        })  # fmt: skip
