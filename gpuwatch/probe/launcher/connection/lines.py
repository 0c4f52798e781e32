"""Our side of the talk with the conductor: JSON lines out, and the last one even when nobody reads."""

import json
import os
import select
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - used in type comments

START_MARK = "GPUWATCHP"
MAX_TEXT = 300
"""Of a name or a sentence in a line of ours."""
MAX_LINE = 1 << 20
"""Of a line that the worker states."""
_LAST_WORD_S = 0.2


class LineWriter(object):
    """Writes whole lines to one descriptor, from any thread."""

    def __init__(self, descriptor):
        # type: (int) -> None
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def begin(self, nonce):
        # type: (str) -> None
        """Mark the end of whatever a login shell has printed."""
        self.write("\n{} {}\n".format(START_MARK, nonce).encode("ascii"))

    def emit(self, kind, **facts):
        # type: (str, Any) -> None
        """One line of `protocol`; facts that are None are left out."""
        self.write(_line(kind, facts))

    def note(self, text):
        # type: (str) -> None
        """Something a person should know."""
        self.emit("note", text=text[: 4 * MAX_TEXT])

    def write(self, data):
        # type: (bytes) -> None
        """Write all of it; waits while nobody reads.

        Raises:
            OSError: nobody listens any more.
        """
        with self._lock:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]

    def last_word(self, reason):
        # type: (str) -> None
        """State why we leave, if that can be written without waiting."""
        line = _line("leaving", {"reason": reason[:MAX_TEXT]})
        if not self._lock.acquire(timeout=_LAST_WORD_S):
            return
        try:
            # a pipe that is ready takes a line this short whole
            if select.select([], [self._descriptor], [], _LAST_WORD_S)[1]:
                os.write(self._descriptor, line)
        except (OSError, ValueError):
            pass  # nobody listens any more
        finally:
            self._lock.release()


def _line(kind, facts):
    # type: (str, dict[str, Any]) -> bytes
    reported = {key: value for key, value in facts.items() if value is not None}
    return json.dumps(dict(reported, kind=kind), separators=(",", ":")).encode("ascii") + b"\n"
