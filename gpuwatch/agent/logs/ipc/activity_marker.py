"""Marks the log reader's activity: written before steps that may hang, read by the agent if one does.

It is a pipe whose both ends the reader holds. Nothing reads it in normal operation, so that a marker costs
one system call and wakes no process; when it is full, the reader empties it.
"""

import os
from collections import namedtuple

_READ_BYTES = 1 << 20
_ATOMIC_BYTES = 4096
"""Bytes that a pipe takes atomically."""
_MAX_PATH_BYTES = 3600
"""Bytes of a path."""

Activity = namedtuple("Activity", ("what", "path", "stretch", "rule"))
"""`what`: `file` (access to `path`) or `scan` (of `stretch`: inode, begin, end; for `rule` if not empty).

Empty: work that cannot hang.
"""
NOTHING = Activity("", "", (0, 0, 0), "")


class ActivityMarker(object):
    """Writes into the marker pipe what the log reader is about to do."""

    def __init__(self, read_end: int, write_end: int) -> None:
        self._read_end = read_end
        self._write_end = write_end
        self._scan = self._tail = b"\n"
        for end in (read_end, write_end):
            os.set_blocking(end, False)

    def file(self, path: str) -> None:
        """Announce an access to a file or folder."""
        self._write(b"file " + _path(path) + b"\n")

    def scan(self, path: str, inode: int, begin: int, end: int) -> None:
        """Announce the scan of bytes `begin` to `end` of a file."""
        self._tail = " {} {} {} ".format(inode, begin, end).encode("ascii") + _path(path) + b"\n"
        self._scan = b"scan -" + self._tail
        self._write(self._scan)

    def rule(self, rule: str) -> None:
        """Announce the search for one rule in the range that is scanned."""
        self._write(b"scan " + rule.encode("ascii", "replace")[:200] + self._tail)

    def after_rule(self) -> None:
        """Announce the end of the search for a rule."""
        self._write(self._scan)

    def idle(self) -> None:
        """Announce work that cannot hang."""
        self._scan = self._tail = b"\n"
        self._write(self._scan)

    def _write(self, activity: bytes) -> None:
        try:
            os.write(self._write_end, activity)
        except BlockingIOError:
            os.read(self._read_end, _READ_BYTES)
            os.write(self._write_end, activity)


def _path(path: str) -> bytes:
    return path.replace("\n", "\0").encode("utf-8", "surrogateescape")[
        :_MAX_PATH_BYTES
    ]  # no path holds a NUL


def last_activity(read_end: int) -> "Activity":
    """Return the last announced activity of a stopped reader; `NOTHING` if unknown."""
    os.set_blocking(read_end, False)
    data = b""
    try:
        while True:
            piece = os.read(read_end, _READ_BYTES)
            if not piece:
                break
            data = data[-2 * _ATOMIC_BYTES :] + piece
    except OSError:
        pass
    activity = data[:-1].rpartition(b"\n")[2].decode("utf-8", "surrogateescape").replace("\0", "\n")
    what, _, rest = activity.partition(" ")
    if what == "file":
        return Activity(what, rest, NOTHING.stretch, "")
    fields = rest.split(" ", 4)
    if what != "scan" or len(fields) < 5:
        return NOTHING
    rule, inode, begin, end, path = fields
    return Activity(what, path, (int(inode), int(begin), int(end)), "" if rule == "-" else rule)
