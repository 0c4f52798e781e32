"""A call that may never come back, kept off the reader's own thread."""

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable  # noqa: F401 - used in type comments


class Background(object):
    """Runs `call` in a daemon thread, one at a time.

    A dead network mount, a wedged network card or a directory service without an answer blocks that
    thread and nobody else; while it is blocked no second one is started.
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
