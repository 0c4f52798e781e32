"""Reads the compressed parts of a recording, and counts those that cannot be read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import zstandard

from gpuwatch.link.recording.records import StreamRecord, records_of

MAX_BLOCK_BYTES = 64 << 20
"""A block that claims to expand to more is damaged."""
MAX_DICTIONARIES = 256
"""Maximum number of dictionaries in memory; each start of a recorder trains one."""
LATE_MICROS = 60_000_000
"""A record may be so much newer than the end of its part; one that is newer would never be played."""
MAX_SEEK_BYTES, MAX_SEEK_RECORDS, MAX_SEEK_CPU_S = 512 << 20, 1_000_000, 20.0
"""Limits of reading after a key frame.

1,000 nodes make 10,000 records and 5 MB a second, with a key frame about every minute.
"""
BYTES_PER_BYTE, RECORDS_PER_BYTE = 100, 0.25
"""Decompressed bytes and records per byte of a file that is read as a whole.

Blocks compress 10 to 40 fold, and a record takes 10 bytes at least.
"""


class Inflater:
    """Decompresses parts of a recording, and counts those that it cannot decompress."""

    def __init__(self, dictionary: Callable[[int], bytes | None]) -> None:
        """Create an inflater; `dictionary` returns a dictionary by its id, or None if unknown."""
        self._dictionary = dictionary
        self._known: dict[int, zstandard.ZstdDecompressor] = {0: zstandard.ZstdDecompressor()}
        """Dictionary id -> decompressor; 0: without a dictionary."""
        self.damaged = 0
        """Number of parts that could not be decompressed."""

    def inflated(self, data: bytes) -> bytes:
        """Return the decompressed bytes of a part; empty if it is damaged, which is counted in `damaged`."""
        found = self.opened(data)
        self.damaged += found is None
        return found or b""

    def opened(self, data: bytes) -> bytes | None:
        """Return the decompressed bytes of a part; None if it is damaged (not counted in `damaged`)."""
        try:
            frame = zstandard.get_frame_parameters(data)
            if 0 <= frame.content_size <= MAX_BLOCK_BYTES:
                return self._with(frame.dict_id).decompress(data, allow_extra_data=False)
        except (zstandard.ZstdError, LookupError):
            return None
        return None

    def _with(self, number: int) -> zstandard.ZstdDecompressor:
        if number not in self._known:
            content = self._dictionary(number)
            if content is None:
                raise LookupError(number)
            if len(self._known) > MAX_DICTIONARIES:
                del self._known[next(each for each in self._known if each)]
            known = zstandard.ZstdCompressionDict(content)
            self._known[number] = zstandard.ZstdDecompressor(dict_data=known)
        return self._known[number]


class PartReader:
    """Decompresses blocks and key frames of one file, and splits them into records."""

    def __init__(self, dictionary: Callable[[int], bytes | None]) -> None:
        """Create a reader; `dictionary` returns a dictionary by its id, or None if unknown."""
        self._inflater = Inflater(dictionary)
        self._odd: dict[tuple[str, int], int] = {}
        """Table and key of a part -> lines of it that could not be read."""
        self.read_bytes = 0
        """Inflated so far."""

    @property
    def damaged(self) -> int:
        """Return the number of parts and lines that could not be read so far."""
        return self._inflater.damaged + sum(self._odd.values())

    def note(self, part: tuple[str, int]) -> None:
        """Count a part as unreadable."""
        self._odd.setdefault(part, 1)

    def inflated(self, data: bytes) -> bytes:
        """Return the decompressed bytes of a part; empty if it is damaged."""
        found = self._inflater.inflated(data)
        self.read_bytes += len(found)
        return found

    def records(self, part: tuple[str, int], data: bytes, since: int, last: int) -> Iterator[StreamRecord]:
        """Yield the records of a part that covers `since` to `last` (microseconds of recorded time).

        A part without any record counts as damaged, as does each unreadable line.
        """
        odd, known = 0, 0

        def skip() -> None:
            nonlocal odd
            odd += 1

        inflated = self._inflater.opened(data) or b""
        self.read_bytes += len(inflated)
        try:
            for one in records_of(inflated, since, skip):
                if one.at > last + LATE_MICROS:
                    odd += 1
                    continue
                known += 1
                yield one
        finally:
            odd = odd or not known
            if odd:
                self._odd[part] = max(odd, self._odd.get(part, 0))


class ReadBudget:
    """Limits of one walk through a recording: bytes, records and CPU time."""

    def __init__(self, parts: PartReader, most_bytes: float, most_records: float, cpu_s: float) -> None:
        """Start with an unused budget.

        Args:
            parts: The reader of the recording.
            most_bytes: Maximum decompressed bytes.
            most_records: Maximum records; the caller counts them in `records`.
            cpu_s: Maximum CPU time of this thread (seconds).
        """
        self._parts, self._until_bytes = parts, parts.read_bytes + most_bytes
        self._most_records, self._until = most_records, time.thread_time() + cpu_s
        self.records = 0

    @classmethod
    def of_file(cls, parts: PartReader, size: int) -> ReadBudget:
        """Return the limits for reading a whole recording, whose file has `size` bytes."""
        most_records = MAX_SEEK_RECORDS + size * RECORDS_PER_BYTE
        return cls(parts, MAX_SEEK_BYTES / 2 + size * BYTES_PER_BYTE, most_records, float("inf"))

    @property
    def is_spent(self) -> bool:
        """Return True if a limit is exceeded, so that nothing more may be read."""
        return (
            self._parts.read_bytes > self._until_bytes
            or self.records > self._most_records
            or time.thread_time() > self._until
        )
