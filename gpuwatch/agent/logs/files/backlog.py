"""Reads a file's content from before the agent started, in pieces, when nothing live waits."""

import os

from ...base.regular_file import modified_at, open_regular
from .holes import data_from, newest_data

BACKLOG_BYTES = 64 << 20
"""Stored bytes of each file that are scanned first: the newest."""
OLDER_BYTES = 1 << 30
"""Stored bytes of each older part, down to the start of the file."""
_LINE_BYTES = 64 * 1024


class Backlog(object):
    """The reader of one file's backlog, with a descriptor of its own, since the file may be rotated."""

    def __init__(self, path: str, end: int, begin: "int | None" = None, older: "int | None" = None) -> None:
        """Read from `begin` (a line's first byte) to `end`; None: the last `BACKLOG_BYTES` stored bytes.

        `older`: start of the part to scan after this one; earlier parts follow.

        Raises:
            OSError: The file cannot be read.
        """
        self._descriptor = open_regular(path)
        found = os.fstat(self._descriptor)
        self.inode = found.st_ino
        self.written_at = modified_at(found)
        """Upper bound of its times (unix seconds)."""
        self._end = end
        if begin is None:
            begin = self._line_from(newest_data(self._descriptor, end, BACKLOG_BYTES))
            older = self._line_from(newest_data(self._descriptor, begin, OLDER_BYTES))
        self._begin = begin
        self.older: int | None = None if older is None or older >= self._begin else older
        """Start of the part to scan after this one."""
        self._at = self._begin
        self._in_hole = False
        self.second = False
        """True while the older part is being scanned."""

    def _line_from(self, offset: int) -> int:
        """Return the offset of the first line after the one that contains `offset`; 0 for 0.

        `offset` itself if that line does not end within `_LINE_BYTES`.
        """
        if not offset:
            return 0
        return offset + os.pread(self._descriptor, _LINE_BYTES, offset).find(b"\n") + 1

    @property
    def searched_from(self) -> int:
        """Return the offset from which everything is searched; earlier parts follow."""
        if self.second:
            return self._end
        return 0 if self.older is None else self._begin

    @property
    def span(self) -> "list[int]":
        """Return [next byte to scan, end] of the backlog's current part."""
        return [self._at, self._end]

    @property
    def left(self) -> int:
        """Return the number of bytes left to scan in the backlog's current part."""
        return max(0, self._end - self._at)

    def pct(self) -> float:
        """Return how much of the backlog's current part was scanned, in percent."""
        return round(100.0 * (self._at - self._begin) / max(1, self._end - self._begin), 1)

    @property
    def whole(self) -> "tuple[int, int]":
        """Return (first byte, end) of this part."""
        return self._begin, self._end

    def read(self, budget: int) -> "tuple[bytes, int]":
        """Return the next piece of the file, of at most `budget` bytes, and its offset.

        A hole is returned as one line end, so that an unfinished line before it ends. A file that was
        truncated counts as finished.

        Raises:
            OSError: it cannot be read any more.
        """
        stored = data_from(self._descriptor, self._at, self._end)
        if stored > self._at and not self._in_hole:
            self._in_hole = True
            return b"\n", self._at
        self._in_hole, self._at = False, stored
        data = os.pread(self._descriptor, min(budget, self._end - self._at), self._at)
        if not data:
            self._end = self._at
        return data, self._at

    def scanned(self, count: int) -> None:
        """Record that `count` more bytes are scanned."""
        self._at += count

    def go_older(self) -> None:
        """Continue with the older part of the backlog, if any."""
        if self.older is not None:
            self._begin, self._end, self._at = self.older, self._begin, self.older
            older = self._line_from(newest_data(self._descriptor, self._begin, OLDER_BYTES))
            self.older = older if older < self._begin else None
            self.second, self._in_hole = True, False

    def give_up(self) -> None:
        """Skip the rest of the backlog's current part."""
        self._end = self._at

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
