"""Keys by which nodes find that they see the same file: of its ends, and of an offset while it grows."""

import ctypes
import os
import struct
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

BLOCK_BYTES = 4096
"""Bytes at each end of a file, and before its common offset, of which a fingerprint has a checksum."""
HOLD_S = 10.0
"""Seconds for which an offset is kept: longer than the interval of file lists, so that each is reported."""
_AT_EMPTY_PATH, _STATX_BTIME = 0x1000, 0x800
_STATX_BYTES = 256
_MASK, _CREATED = struct.Struct("=I"), struct.Struct("=qI")
_CREATED_AT = 80
"""Where `struct statx` has the time of creation (seconds, nanoseconds)."""


class Fingerprint(object):
    """Makes the fingerprints of one file; keeps the parts that do not change with every line."""

    def __init__(self, clock: "Callable[[], float]") -> None:
        self._clock = clock
        self._inode = -1
        self._size = 0
        """The size up to which offsets were chosen."""
        self._due = 0.0
        self._made = self._growth = ""
        self._first: int | None = None
        """Checksum of the first block, once it is whole."""

    def of(self, descriptor: int) -> "str | None":
        """Return `MADE|GROWTH|STATE`; None: the file is empty or unreadable.

        MADE has the inode and the time of creation; GROWTH, kept for `HOLD_S`, an offset and checksums of the
        first block and of the one before it; STATE size, last write, and checksums of both ends.
        """
        try:
            found = os.fstat(descriptor)
            if not found.st_size:
                return None
            if found.st_ino != self._inode or found.st_size < self._size:
                self._inode, self._size, self._due = found.st_ino, 0, 0.0
                self._made, self._first = _text(self._inode, _creation_ns(descriptor)), None
            first = self._first
            if first is None:
                first = _checksum(descriptor, 0, min(BLOCK_BYTES, found.st_size))
                self._first = first if found.st_size >= BLOCK_BYTES else None
            if self._size != found.st_size and self._clock() >= self._due:
                offset = roundest(self._size, found.st_size)
                head = first if offset >= BLOCK_BYTES else _checksum(descriptor, 0, offset)
                self._growth = _text(
                    offset, head, _checksum(descriptor, max(0, offset - BLOCK_BYTES), offset)
                )
                self._size, self._due = found.st_size, self._clock() + HOLD_S
            last = _checksum(descriptor, max(0, found.st_size - BLOCK_BYTES), found.st_size)
        except OSError:
            return None
        state = _text(found.st_size, found.st_mtime_ns, first, last)
        return "|".join((self._made, self._growth, state))


def roundest(low: int, high: int) -> int:
    """Return the multiple of the largest power of two that is above `low` and not above `high`.

    Nodes that look at a growing file at different times choose the same one if it lies between two looks of
    each. Every multiple of a power of two that is at least twice their distance is chosen by all of them.
    """
    best = high
    while best & (best - 1) > low:
        best &= best - 1
    return best


def of_shared_file(descriptor: int) -> "str | None":
    """Return the fingerprint of a file on a shared file system, where size and last write may be stale.

    Inode and checksum of the first bytes, or while it is empty the last write. None: it cannot be read.
    """
    try:
        found = os.fstat(descriptor)
        length = min(found.st_size, BLOCK_BYTES)
        length = 1 << (length.bit_length() - 1) if length else 0
        first = os.pread(descriptor, length, 0)
    except OSError:
        return None
    return _text(found.st_ino, len(first), zlib.crc32(first) if first else found.st_mtime_ns)


def _creation_ns(descriptor: int) -> int:
    """Return when a file was created (unix ns); 0: the file system or the C library does not tell.

    Machines of one image give the files that they make equal inodes, but not equal times.
    """
    found = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        statx = ctypes.CDLL(None).statx
        failed = statx(descriptor, b"", _AT_EMPTY_PATH, _STATX_BTIME, found)
    except (AttributeError, OSError, ctypes.ArgumentError):
        return 0
    if failed or not _MASK.unpack_from(found)[0] & _STATX_BTIME:
        return 0
    seconds, nanoseconds = _CREATED.unpack_from(found, _CREATED_AT)
    return int(seconds * 10**9 + nanoseconds)


def _checksum(descriptor: int, begin: int, end: int) -> int:
    return zlib.crc32(os.pread(descriptor, end - begin, begin))


def _text(*marks: int) -> str:
    return ":".join("{:x}".format(mark) for mark in marks)
