"""A call that may never come back, kept off the reader's own thread."""

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable  # noqa: F401 - used in type comments


class Background(object):
    """Runs `call` in a daemon thread, one at a time.

    A dead network mount, a wedged network card or a directory service without an answer blocks that
    thread and no other; while it is blocked no second one is started.
    """

    def __init__(self, call, name):
        # type: (Callable[[], object], str) -> None
        self._call = call
        self._name = name
        self._thread = None  # type: threading.Thread | None
        self._answer = None  # type: object
        self._answered = threading.Event()
        self._running = False

    def start(self):
        # type: () -> bool
        """Begin a call; False while the one before has not come back."""
        if self._running:
            return False
        self._running = True
        self._answered.clear()
        self._thread = threading.Thread(target=self._run, name=self._name)
        self._thread.daemon = True
        self._thread.start()
        return True

    def wait(self, deadline):
        # type: (float) -> bool
        """Wait for the answer until `deadline` on the monotonic clock; False when it has not come."""
        return self._answered.wait(max(0.0, deadline - time.monotonic()))

    def answer(self):
        # type: () -> object
        """What the last finished call returned; None while one runs, or when it raised OSError."""
        return self._answer if self._answered.is_set() else None

    def _run(self):
        # type: () -> None
        try:
            self._answer = self._call()
        except OSError:
            self._answer = None
        finally:
            self._running = False
            self._answered.set()


class Round(object):
    """One thread that goes through a list of calls and notes where it stands."""

    def __init__(self, calls):
        # type: (dict[int, Callable[[], object]]) -> None
        self.answers = {}  # type: dict[int, object]
        self.current = None  # type: int | None
        self.since = time.monotonic()
        self.abandoned = False
        self.finished = threading.Event()
        self._calls = calls
        self.thread = threading.Thread(target=self._run, name="processes")
        self.thread.daemon = True
        self.thread.start()

    def _run(self):
        # type: () -> None
        for key, call in self._calls.items():
            if self.abandoned:
                return
            self.since, self.current = time.monotonic(), key
            try:
                self.answers[key] = call()
            except OSError:
                self.answers[key] = None
        self.current = None
        self.finished.set()


class TimedCalls(object):
    """Asks many short questions in a worker thread, and never waits longer than `patience_s` for all.

    A question on which the worker got stuck is not asked again while that worker lives; another worker goes
    on with the others. With `MAX_STUCK` stuck workers nothing more is asked.
    """

    MAX_STUCK = 3

    def __init__(self, patience_s=0.5):
        # type: (float) -> None
        self._patience_s = patience_s
        self._stuck = {}  # type: dict[int, threading.Thread]

    @property
    def stuck(self):
        # type: () -> list[int]
        """The keys of the questions that have not come back."""
        self._stuck = {key: thread for key, thread in self._stuck.items() if thread.is_alive()}
        return sorted(self._stuck)

    def ask(self, calls):
        # type: (dict[int, Callable[[], object]]) -> dict[int, object]
        """The answers that came in time, by key; ask again for the others. An OSError answers None."""
        stuck = self.stuck
        calls = {key: call for key, call in calls.items() if key not in stuck}
        if not calls or len(stuck) >= self.MAX_STUCK:
            return {}
        asked = Round(calls)
        if not asked.finished.wait(self._patience_s):
            asked.abandoned = True
            key = asked.current
            if key is not None and time.monotonic() - asked.since > self._patience_s / 2:
                self._stuck[key] = asked.thread
        return dict(asked.answers)
