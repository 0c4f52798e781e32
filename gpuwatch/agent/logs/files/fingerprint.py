"""What two nodes can compare to find that they see one file, on a file system that is not known as shared."""

import os
import zlib

HEAD_BYTES = 4096


def fingerprint(descriptor):
    # type: (int) -> str | None
    """Inode, size, time of the last write (ns), checksums of both ends; None: empty or unreadable."""
    try:
        found = os.fstat(descriptor)
        first = os.pread(descriptor, HEAD_BYTES, 0)
        last = os.pread(descriptor, HEAD_BYTES, max(0, found.st_size - HEAD_BYTES))
    except OSError:
        return None
    if not found.st_size:
        return None
    marks = (found.st_ino, found.st_size, found.st_mtime_ns, zlib.crc32(first), zlib.crc32(last))
    return ":".join("{:x}".format(mark) for mark in marks)
