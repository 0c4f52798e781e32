"""Runs calls that may never return on separate threads."""

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


class Background(object):
    """Runs the function `call` in a daemon thread, one call at a time.

    A dead network mount, a hung network card or an unresponsive directory service blocks only that thread;
    while it is blocked, no second one is started.
    """

    def __init__(self, call: "Callable[[], object]", name: str, lasting: bool = False) -> None:
        """Prepare the call; no thread runs yet.

        `lasting`: keep the thread for the next call, which is cheaper for a call at every tick.
        """
        self._call = call
        self._name = name
        self._lasting = lasting
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._answer: object = None
        self._answered = threading.Event()
        self._running = False

    def start(self) -> bool:
        """Start a call and return True; False while the previous one has not returned."""
        if self._running:
            return False
        self._running = True
        self._answered.clear()
        self._wanted.set()
        if self._thread is None or not self._lasting:
            self._thread = threading.Thread(target=self._run, name=self._name)
            self._thread.daemon = True
            self._thread.start()
        return True

    def wait(self, deadline: float) -> bool:
        """Wait for the result until `deadline` (monotonic); return False if it has not arrived."""
        return self._answered.wait(max(0.0, deadline - time.monotonic()))

    def answer(self) -> object:
        """Return the result of the last finished call.

        None before the first, while one runs, or if it raised OSError.
        """
        return self._answer if self._answered.is_set() else None

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            try:
                self._answer = self._call()
            except OSError:
                self._answer = None
            finally:
                self._running = False
                self._answered.set()
            if not self._lasting:
                return


class Round(object):
    """A thread that makes calls in order and puts their results in `answers`; it starts at once.

    A call that raises OSError has the result None. `current` is the key of the call in progress; set
    `abandoned` to stop after it.
    """

    def __init__(self, calls: "dict[int, Callable[[], object]]") -> None:
        self.answers: dict[int, object] = {}
        self.current: int | None = None
        self.since = time.monotonic()
        self.abandoned = False
        self.finished = threading.Event()
        self._calls = calls
        self.thread = threading.Thread(target=self._run, name="processes")
        self.thread.daemon = True
        self.thread.start()

    def _run(self) -> None:
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
    """Makes many short calls in a worker thread, and waits at most `patience_s` for all of them.

    A call that blocks the worker is not repeated while that worker lives; another worker makes the other
    calls. With `MAX_STUCK` blocked workers, no further calls are made.
    """

    MAX_STUCK = 3

    def __init__(self, patience_s: float = 0.5) -> None:
        self._patience_s = patience_s
        self._stuck: dict[int, threading.Thread] = {}

    @property
    def stuck(self) -> "list[int]":
        """Return the keys of the calls that exceeded their time and still have not returned."""
        self._stuck = {key: thread for key, thread in self._stuck.items() if thread.is_alive()}
        return sorted(self._stuck)

    def ask(self, calls: "dict[int, Callable[[], object]]") -> "dict[int, object]":
        """Make the calls; return key -> result of those that returned in time.

        The others are left out; ask for them again. The result of a call that raised OSError is None.
        """
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
