"""Finds the JSON records of a chunk that are longer than a line may be, and reads them in parts."""

from ..lines.splitter import MAX_LINE
from ..records.open_record import begun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..records.open_record import OpenRecord

MAX_RECORD = 256 * 1024
"""Bytes of a record that are read at once."""
BEFORE_BYTES = MAX_LINE // 4
"""Bytes before a place in a record from which on a further part is read, and bytes behind it."""


class LongRecords(object):
    """The long records of a chunk: lines of more than `MAX_LINE` bytes, or the rest of one."""

    def __init__(self, clean: bytes, opened: "OpenRecord | None") -> None:
        """Take a chunk; `opened`: the record inside of which it begins."""
        self._clean = clean
        self._opened = opened
        self._line = (0, -1)
        """The line that was looked at last."""
        self._place = 0
        self._before: OpenRecord | None = None
        """The record up to `_place` in that line; None: it is none."""
        self._read: tuple[int, int, bytes] = (0, -1, b"")
        """The part that was read last, as a line."""

    def part(self, at: int) -> "tuple[int, int, int] | None":
        """Return (start, end, place up to which phrases are searched) of the part around `at`.

        None: `at` is in no long record.
        """
        if not self._enter(at) or self._before is None:
            return None
        end = min(self._line[1], self._place + MAX_RECORD)
        if end < self._line[1] and at >= end - BEFORE_BYTES:
            self._advance(at - BEFORE_BYTES)
            end = min(self._line[1], self._place + MAX_RECORD)
        line = None if self._before is None else self._before.line(self._clean[self._place : end])
        if line is None:
            self._before = None
            return None
        start = self._line[0] if self._place - self._line[0] < MAX_LINE // 4 else self._place
        self._read = (start, end, line)
        return start, end, end if end == self._line[1] else end - BEFORE_BYTES

    def line(self, start: int, end: int) -> "bytes | None":
        """Return the line that was read last if its range is (start, end), else None."""
        return self._read[2] if self._read[:2] == (start, end) else None

    def open_at(self, at: int) -> "OpenRecord | None":
        """Return the record that is unfinished at byte `at` of the last line; None: none is."""
        if not self._enter(at, 0) or self._line[1] < len(self._clean):
            return None
        self._advance(at)
        return self._before

    def _enter(self, at: int, longer_than: int = MAX_LINE) -> bool:
        """Look at the line around `at`; return True if it is long, or continues a record."""
        is_same = self._line[0] <= at < self._line[1] or at == self._line[1] == len(self._clean)
        if is_same and (at >= self._place or self._before is None or not self._before.closers):
            return True
        start, end = self._ends(at)
        if end - start <= longer_than and (start or self._opened is None):
            return False
        self._line, self._place = (start, end), start
        self._before = self._opened if not start else None
        if self._before is None:
            self._before = begun(self._clean[start:end])
            self._place += len(self._before.prefix) if self._before is not None else 0
        return True

    def _ends(self, at: int) -> "tuple[int, int]":
        """Return (start, end) of the line around `at`."""
        clean = self._clean
        for size in (MAX_LINE, len(clean)):  # nearly all lines are short
            low, high = max(0, at - size), min(len(clean), at + size)
            start = clean.rfind(b"\n", low, at) + 1
            start = clean.rfind(b"\r", max(low, start), at) + 1 or start
            end = clean.find(b"\n", at, high)
            end = high if end < 0 else end
            other = clean.find(b"\r", at, end)
            end = end if other < 0 else other
            if (start or not low) and (end < high or high == len(clean)):
                break
        return start, end

    def _advance(self, to: int) -> None:
        """Read the record of the line up to byte `to`, at most `MAX_RECORD` bytes at a time."""
        while self._before is not None and self._place < to:
            end = min(to, self._place + MAX_RECORD)
            self._before = self._before.after(self._clean[self._place : end])
            self._place = end
