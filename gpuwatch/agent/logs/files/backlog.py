"""What stood in a file before the agent came: looked through piece by piece when nothing live is waiting."""

import os

from .regular_file import open_regular

BACKLOG_BYTES = 64 << 20
"""Of each file, its newest."""
_LINE_BYTES = 64 * 1024


class Backlog(object):
    """One file's backlog, from its own descriptor: the file may be rotated meanwhile."""

    def __init__(self, path, end, begin=None):
        # type: (str, int, int | None) -> None
        """Scan from `begin` (a line's first byte), else as far back as `BACKLOG_BYTES`, to `end`."""
        self._descriptor = open_regular(path)
        found = os.fstat(self._descriptor)
        self.inode = found.st_ino
        self.written_at = found.st_mtime
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

    @property
    def whole(self):
        # type: () -> tuple[int, int]
        """Where it begins and ends."""
        return self._begin, self._end

    def read(self, budget):
        # type: (int) -> tuple[bytes, int]
        """The next piece, of at most `budget` bytes, and its offset.

        A file that ends early, being truncated, is finished.

        Raises:
            OSError: it cannot be read any more.
        """
        data = os.pread(self._descriptor, min(budget, self._end - self._at), self._at)
        if not data:
            self._end = self._at
        return data, self._at

    def scanned(self, count):
        # type: (int) -> None
        """So many bytes more are scanned."""
        self._at += count

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
