"""Reads the kernel's process accounting: which users' launchers have ended lately (acct(5))."""

import os
import struct

from ....base.regular_file import open_regular
from ....ranks.launcher_names import LAUNCHERS, is_python

FILES = "/var/log/account/pacct", "/var/account/pacct"
"""Where Debian's acct and Red Hat's psacct have the kernel write; most nodes have neither."""
MAX_RECORDS = 65536
"""Most records that are read, newest first."""
AT_ONCE = 4096
"""Records per read."""
PYTHON_S = 30.0
"""Seconds that a Python program ran at least, to count as a training: it may be any tool."""
_RECORD = struct.Struct("=BBHIIIIIIf8H16s")
"""`struct acct_v3`, 64 bytes in the node's byte order: flag, version, tty, exit code, uid, gid, pid, ppid,
start (unix seconds), elapsed time (ticks), 8 counters, name."""
_VERSION = 3
_BYTE_ORDER = 0x80
"""Bit in the version of records of big-endian machines."""
_TICKS_PER_S = 100.0

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator


def ended_launchers(path: str, since: float) -> "Iterator[dict[int, float]]":
    """Yield uid -> unix time at which the user's last launcher ended, after each part that was read.

    Records are in the order of ends, so reading stops at the first part that is older than `since`. Records
    of other versions, which are laid out differently, are not read.

    Raises:
        OSError: the file cannot be opened.
    """
    found: dict[int, float] = {}
    descriptor = open_regular(path, no_link=True)
    try:
        left = os.fstat(descriptor).st_size // _RECORD.size
        least = max(0, left - MAX_RECORDS)
        while left > least:
            first = max(least, left - AT_ONCE)
            data = os.pread(descriptor, (left - first) * _RECORD.size, first * _RECORD.size)
            left = first
            newest = _add(data[: len(data) // _RECORD.size * _RECORD.size], since, found)
            yield found
            if newest < since:
                return
    finally:
        os.close(descriptor)


def _add(data: bytes, since: float, found: "dict[int, float]") -> float:
    """Set in `found` (uid -> unix seconds) when each user's last launcher or long Python run ended.

    Return the newest end of any record; 0.0: there is none.
    """
    newest = 0.0
    for record in _RECORD.iter_unpack(data):
        began, ticks = record[8:10]
        seconds = ticks / _TICKS_PER_S
        ended = began + seconds
        if record[1] & ~_BYTE_ORDER != _VERSION or not ended < float("inf"):
            continue
        newest = max(newest, ended)
        name = record[-1].partition(b"\0")[0].decode("utf-8", "replace")
        if ended >= since and (name in LAUNCHERS or (is_python(name) and seconds >= PYTHON_S)):
            found[record[4]] = max(ended, found.get(record[4], 0.0))
    return newest
