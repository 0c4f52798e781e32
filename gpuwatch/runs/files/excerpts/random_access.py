"""Reads bytes at any offset of a log file in any packing, for scrolling screens."""

from __future__ import annotations

import errno
import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator

from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.files.packing import Contents

KEPT_BYTES = 128 << 20
"""Most bytes of unpacked text that are cached, over all files."""


class PieceCache:
    """A cache of unpacked pieces of several files; the least recently used ones are evicted."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        """Create an empty cache of at most `limit` bytes."""
        self._limit = limit
        self._pieces: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: tuple[str, int]) -> bytes | None:
        """Return the cached piece with this file name and number; None if it is not cached."""
        with self._lock:
            piece = self._pieces.get(key)
            if piece is not None:
                self._pieces.move_to_end(key)
            return piece

    def put(self, key: tuple[str, int], piece: bytes) -> None:
        """Add a piece; the least recently used pieces are evicted if the limit is exceeded."""
        with self._lock:
            self._bytes += len(piece) - len(self._pieces.pop(key, b""))
            self._pieces[key] = piece
            while self._bytes > self._limit and len(self._pieces) > 1:
                self._bytes -= len(self._pieces.popitem(last=False)[1])

    def forget(self, file: str) -> None:
        """Drop all pieces of a file."""
        with self._lock:
            for key in [key for key in self._pieces if key[0] == file]:
                self._bytes -= len(self._pieces.pop(key))


class PlainText:
    """The text of a plain file, which may grow."""

    def __init__(self, log: LogPath) -> None:
        self._path = log.path

    @property
    def size(self) -> int:
        """Return the current size in bytes.

        Raises:
            OSError: the file cannot be read.
        """
        with open_file(self._path) as file:
            return os.fstat(file.fileno()).st_size

    def read_at(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from an offset on; fewer at the end of the file.

        Raises:
            OSError: the file cannot be read.
        """
        with open_file(self._path) as file:
            return os.pread(file.fileno(), count, offset)

    def read_named(self, offset: int, count: int) -> tuple[os.stat_result, bytes]:
        """Return the status of the file that has this name now, and `count` bytes of it from an offset on.

        Raises:
            OSError: the file cannot be read.
        """
        with open_file(self._path) as file:
            return os.fstat(file.fileno()), os.pread(file.fileno(), count, offset)


class UnpackedText:
    """The text of a packed file, unpacked from its beginning; recently used pieces are cached."""

    def __init__(self, log: LogPath, cache: PieceCache) -> None:
        self._log = log
        self._cache = cache
        self._starts: list[int] = []
        """Start offset of each piece unpacked so far (bytes)."""
        self._known_end = 0
        self._whole = False
        """True if `_known_end` is the end of the text."""
        self._pieces: Iterator[bytes] | None = None
        self._next = 0
        """Number of the next piece from `_pieces`."""
        self._stamp: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        """Return the size of the text in bytes; the first call unpacks the whole file.

        Raises:
            OSError: the file cannot be read.
        """
        while not self._whole:
            self._advance()
        return self._known_end

    def read_at(self, offset: int, count: int) -> bytes:
        """Return `count` bytes of the text from an offset on; fewer at its end.

        Raises:
            OSError: the file cannot be read.
        """
        found: list[bytes] = []
        end = offset + count
        while offset < end:
            while offset >= self._known_end and not self._whole:
                self._advance()
            if offset >= self._known_end:
                break
            number = bisect_right(self._starts, offset) - 1
            piece = self._piece(number)
            begin = offset - self._starts[number]
            found.append(piece[begin : begin + end - offset])
            offset += len(found[-1])
            if not found[-1]:
                break
        return b"".join(found)

    def _piece(self, number: int) -> bytes:
        kept = self._cache.get((self._log.name, number))
        if kept is not None:
            return kept
        if self._next > number:
            self._pieces = None
        while True:
            piece = self._advance()
            if self._next > number:
                return piece

    def _advance(self) -> bytes:
        """Unpack one more piece of the file and return it; empty at the end."""
        if self._pieces is None:
            self._begin()
        assert self._pieces is not None  # noqa: S101 - `_begin` sets it
        piece = next(self._pieces, b"")
        if not piece:
            self._whole, self._pieces, self._next = True, None, self._next + 1
            return b""
        if self._next == len(self._starts):
            self._starts.append(self._known_end)
            self._known_end += len(piece)
        self._cache.put((self._log.name, self._next), piece)
        self._next += 1
        return piece

    def _begin(self) -> None:
        """Start unpacking at the beginning again.

        Raises:
            OSError: the file cannot be read, or was replaced since it was opened.
        """
        status = os.stat(self._log.path)  # noqa: PTH116 - of a Path it costs more
        stamp = status.st_ino, status.st_mtime_ns
        if stamp != self._stamp:
            changed, self._stamp = self._stamp is not None, stamp
            self._cache.forget(self._log.name)
            self._starts, self._known_end, self._whole = [], 0, False
            if changed:
                raise OSError(errno.ESTALE, "changed while it was read")
        self._pieces = (piece for piece in Contents(self._log.path, self._log.packing).pieces() if piece)
        self._next = 0


def text_of(log: LogPath, cache: PieceCache) -> PlainText | UnpackedText:
    """Return the text of a log file for random access."""
    return PlainText(log) if log.packing is None else UnpackedText(log, cache)
