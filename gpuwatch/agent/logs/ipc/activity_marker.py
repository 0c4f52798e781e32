"""Where the log reader is: written by it before anything that may never end, read by the agent when it hangs.

A pipe of which the reader holds both ends. Nobody reads it while all is well, so that an activity marker
costs one system call and wakes no process; when it is full the reader empties it.
"""

import os
from collections import namedtuple

_READ_BYTES = 1 << 20
_ATOMIC_BYTES = 4096
"""A pipe takes so many bytes whole or not at all."""
_MAX_PATH_BYTES = 3600
"""Bytes of a path."""

Activity = namedtuple("Activity", ("what", "path", "stretch", "rule"))
"""`what`: file (it is touched), scan (a stretch of it is scanned: inode, begin, end; `rule`: for this rule),
else nothing that can be left out."""
NOTHING = Activity("", "", (0, 0, 0), "")


class ActivityMarker(object):
    """The writing side."""

    def __init__(self, read_end, write_end):
        # type: (int, int) -> None
        self._read_end = read_end
        self._write_end = write_end
        self._scan = self._tail = b"\n"
        for end in (read_end, write_end):
            os.set_blocking(end, False)

    def file(self, path):
        # type: (str) -> None
        """About to touch a file or folder."""
        self._write(b"file " + _path(path) + b"\n")

    def scan(self, path, inode, begin, end):
        # type: (str, int, int, int) -> None
        """About to scan the bytes from `begin` to `end` of a file."""
        self._tail = " {} {} {} ".format(inode, begin, end).encode("ascii") + _path(path) + b"\n"
        self._scan = b"scan -" + self._tail
        self._write(self._scan)

    def rule(self, rule):
        # type: (str) -> None
        """About to search for a rule, in the stretch that is scanned."""
        self._write(b"scan " + rule.encode("ascii", "replace")[:200] + self._tail)

    def after_rule(self):
        # type: () -> None
        """The search for the rule is over, the scan goes on."""
        self._write(self._scan)

    def idle(self):
        # type: () -> None
        """About to do what comes to an end."""
        self._scan = self._tail = b"\n"
        self._write(self._scan)

    def _write(self, activity):
        # type: (bytes) -> None
        try:
            os.write(self._write_end, activity)
        except BlockingIOError:
            os.read(self._read_end, _READ_BYTES)
            os.write(self._write_end, activity)


def _path(path):
    # type: (str) -> bytes
    return path.replace("\n", "\0").encode("utf-8", "surrogateescape")[
        :_MAX_PATH_BYTES
    ]  # no path holds a NUL


def last_activity(read_end):
    # type: (int) -> Activity
    """What the reader was last about to do, once it does nothing any more; `NOTHING` if unknown."""
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
