"""Holes of sparse files: skipped, so that a file costs what it stores and not its apparent length."""

import errno
import os

SMALL_HOLE = 1 << 20
"""Bytes; a smaller hole is read as the zeros that it is."""
MAX_EXTENTS = 1000
"""Stretches of data that are looked through; of a file with more the rest counts as data."""
_DATA = getattr(os, "SEEK_DATA", None)  # type: int | None
_HOLE = getattr(os, "SEEK_HOLE", None)  # type: int | None


def data_from(descriptor, offset, end):
    # type: (int, int, int) -> int
    """The first byte at or behind `offset` that is stored, `end` where none is; moves the file's position.

    Holes below `SMALL_HOLE`, and all holes on file systems that do not report them, count as data.
    """
    if _DATA is None or offset >= end:
        return min(offset, end)
    try:
        found = min(end, os.lseek(descriptor, offset, _DATA))
    except OSError as error:
        found = end if error.errno == errno.ENXIO else offset  # a hole up to the end of the file
    return found if found - offset >= SMALL_HOLE else offset


def newest_data(descriptor, end, most):
    # type: (int, int, int) -> int
    """The offset from which on `most` stored bytes, or all there are, stand before `end`."""
    if end <= most:
        return 0
    extents = []  # type: list[tuple[int, int]]
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


def _hole_from(descriptor, offset, end):
    # type: (int, int, int) -> int
    """Where the data at `offset` ends."""
    if _HOLE is None:
        return end
    try:
        return max(offset + 1, min(end, os.lseek(descriptor, offset, _HOLE)))
    except OSError:
        return end
