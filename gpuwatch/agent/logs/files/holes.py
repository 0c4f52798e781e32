"""Skips holes of sparse files, so that a file costs what it stores."""

import errno
import os

SMALL_HOLE = 1 << 20
"""Size in bytes below which a hole of a sparse file is read as zeros."""
MAX_EXTENTS = 1000
"""Most data extents examined; the rest of a file counts as data."""
_DATA: "int | None" = getattr(os, "SEEK_DATA", None)
_HOLE: "int | None" = getattr(os, "SEEK_HOLE", None)


def data_from(descriptor: int, offset: int, end: int) -> int:
    """Return the offset of the first stored byte from `offset` on, or `end`; moves the file position.

    Holes below `SMALL_HOLE`, and all on file systems that do not report them, count as data.
    """
    if _DATA is None or offset >= end:
        return min(offset, end)
    try:
        found = min(end, os.lseek(descriptor, offset, _DATA))
    except OSError as error:
        found = end if error.errno == errno.ENXIO else offset  # a hole up to the end of the file
    return found if found - offset >= SMALL_HOLE else offset


def newest_data(descriptor: int, end: int, most: int) -> int:
    """Return the offset from which `most` stored bytes lie before `end`; 0 if there are fewer."""
    if end <= most:
        return 0
    extents: list[tuple[int, int]] = []
    at = 0
    while at < end:
        begin = data_from(descriptor, at, end)
        if begin >= end:
            break
        at = end if len(extents) == MAX_EXTENTS else _hole_from(descriptor, begin, end)
        extents.append((begin, at))
    for begin, stop in reversed(extents):
        if stop - begin >= most:
            return stop - most
        most -= stop - begin
    return 0


def _hole_from(descriptor: int, offset: int, end: int) -> int:
    """Return the end of the stored data that contains `offset`, where a hole begins."""
    if _HOLE is None:
        return end
    try:
        return max(offset + 1, min(end, os.lseek(descriptor, offset, _HOLE)))
    except OSError:
        return end
