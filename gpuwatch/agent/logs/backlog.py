"""What stood in a file before the agent came: looked through piece by piece when nothing live is waiting."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - used in type comments

    from .scanner import Scanner  # noqa: F401 - used in type comments

BACKLOG_BYTES = 64 << 20
"""Of each file, its newest."""
STEP_BYTES = 256 * 1024
"""Between two looks at what is live; some 5 ms of work."""
_LINE_BYTES = 64 * 1024


class Backlog(object):
    """One file's backlog, from its own descriptor: the file may be rotated meanwhile."""

    def __init__(self, path, end, begin=None):
        # type: (str, int, int | None) -> None
        """Scan from `begin` (a line's first byte), else as far back as `BACKLOG_BYTES`, to `end`."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        self.written_at = os.fstat(self._descriptor).st_mtime
        """What stands in it was written no later (unix seconds)."""
        self._begin = max(0, end - BACKLOG_BYTES) if begin is None else begin
        self._end = end
        if self._begin and begin is None:
            head = os.pread(self._descriptor, _LINE_BYTES, self._begin)
            self._begin += head.find(b"\n") + 1
        self._at = self._begin

    @property
    def span(self):
        # type: () -> list[int]
        """The next byte to be scanned, and the end."""
        return [self._at, self._end]

    @property
    def left(self):
        # type: () -> int
        """Bytes to be scanned."""
        return max(0, self._end - self._at)

    def pct(self):
        # type: () -> float
        """How far it is."""
        return round(100.0 * (self._at - self._begin) / max(1, self._end - self._begin), 1)

    def step(self, scanner, arrived):
        # type: (Scanner, float) -> list[dict[str, Any]]
        """Scan the next piece: the findings. A file that ends early, being truncated, is finished.

        Raises:
            OSError: it cannot be read any more.
        """
        data = os.pread(self._descriptor, min(STEP_BYTES, self._end - self._at), self._at)
        if not data:
            self._end = self._at
            return []
        found = scanner.feed(data, self._at, arrived, backlog=True)
        self._at += len(data)
        return found

    def give_up(self):
        # type: () -> None
        """Leave the rest."""
        self._end = self._at

    def close(self):
        # type: () -> None
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
