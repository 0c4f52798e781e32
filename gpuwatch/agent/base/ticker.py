"""The common tick: readers start together, and the emitter learns when all that were free are done."""

import threading
import traceback
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable  # noqa: F401 - used in type comments

KEPT_EVENTS = 500


class Ticker(object):
    """Lets readers go once a tick. A reader that is late misses ticks; it is not waited for."""

    def __init__(self, wake, interval_s):
        # type: (Callable[[], None], float) -> None
        self.interval_s = interval_s
        """Between two ticks, as it is wanted now."""
        self.wake = wake
        """Make the emitter look up."""
        self._condition = threading.Condition()
        self._tick = 0
        self._waiting = 0
        self._busy = 0

    def tick(self):
        # type: () -> None
        """Let every waiting reader go."""
        with self._condition:
            self._tick += 1
            self._busy, self._waiting = self._waiting, 0
            self._condition.notify_all()

    def done(self):
        # type: () -> bool
        """Whether every thread that the last tick released has come back."""
        return self._busy == 0

    def next(self, tick):
        # type: (int) -> int
        """State that the work of `tick` is done (0: of none), and wait for the next tick; its number."""
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
    """A thread that reads something once a tick and leaves what it found in `found`."""

    def __init__(self, name, ticker, events):
        # type: (str, Ticker, deque[dict[str, Any]]) -> None
        self.name = name
        self.found = deque(maxlen=64)  # type: deque[tuple[str, Any]]
        """(kind, value), oldest first; taken by the emitter."""
        self.events = events
        self.ended = False
        """Set by `read` when there is nothing to do any more."""
        self._ticker = ticker
        self._trouble = ""

    def start(self):
        # type: () -> None
        """Start the thread; it lives as long as the process."""
        thread = threading.Thread(target=self._run, name=self.name)
        thread.daemon = True
        thread.start()

    def read(self, tick):
        # type: (int) -> None
        """Read once; 0 is the first time, before any tick."""
        raise NotImplementedError

    def _run(self):
        # type: () -> None
        tick = 0
        while True:
            try:
                self.read(tick)
            except Exception as error:  # one bad reading must not end the thread; it is reported once
                self._report(error)
            if self.ended:
                return
            tick = self._ticker.next(tick)

    def _report(self, error):
        # type: (Exception) -> None
        trouble = traceback.format_exc()
        if trouble == self._trouble:
            return
        self._trouble = trouble
        where = trouble.strip().splitlines()[-3:]
        self.events.append({
            "event": "agent", "severity": "warning", "source": "agent",
            "title": "{}: {}".format(self.name, type(error).__name__), "detail": " | ".join(where)[:500],
        })  # fmt: skip
