"""The launcher's output to the conductor: JSON lines; the last one is sent even if nobody reads."""

import json
import os
import select
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

START_MARK = "GPUWATCHP"
MAX_TEXT = 300
"""Maximum length of a name or a sentence in a line."""
MAX_LINE = 1 << 20
"""Maximum length of a line from the worker."""
_LAST_WORD_S = 0.2


class LineWriter(object):
    """Writes whole lines to one descriptor, from any thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def begin(self, nonce: str) -> None:
        """Write the start mark, which ends what a login shell may have printed."""
        self.write("\n{} {}\n".format(START_MARK, nonce).encode("ascii"))

    def emit(self, kind: str, **facts: "Any") -> None:
        """Write one message of `protocol`; fields that are None are left out."""
        self.write(_line(kind, facts))

    def note(self, text: str) -> None:
        """Send a note for the user."""
        self.emit("note", text=text[: 4 * MAX_TEXT])

    def write(self, data: bytes) -> None:
        """Write all of `data`; blocks until it is read.

        Raises:
            OSError: the connection is closed.
        """
        with self._lock:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]

    def last_word(self, reason: str) -> None:
        """Send the reason for leaving as the last line, if that is possible without blocking."""
        line = _line("leaving", {"reason": reason[:MAX_TEXT]})
        if not self._lock.acquire(timeout=_LAST_WORD_S):
            return
        try:
            # a pipe that is ready takes a line this short whole
            if select.select([], [self._descriptor], [], _LAST_WORD_S)[1]:
                os.write(self._descriptor, line)
        except (OSError, ValueError):
            pass  # the connection is closed
        finally:
            self._lock.release()


def _line(kind: str, facts: "dict[str, Any]") -> bytes:
    reported = {key: value for key, value in facts.items() if value is not None}
    return json.dumps(dict(reported, kind=kind), separators=(",", ":")).encode("ascii") + b"\n"
