"""Finds files that a process writes, such as a checkpoint, by the positions of its descriptors.

/proc/PID/fdinfo has them without a look at the file system, which may hang.
"""

import os

from ...base.procfs import clean, names, read_link, read_text
from .walk import may_be_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_DESCRIPTORS = 1024
"""Most descriptors of a process that are looked at."""
LEAST_BYTES = 64 * 1024
"""Least number of bytes between two readings: a log or a metrics file grows less."""
_NO_FILES = ("/dev/", "/proc/", "/sys/", "/memfd:")
_WRITABLE = os.O_WRONLY | os.O_RDWR


def positions(proc: str, pid: int) -> "dict[tuple[str, str], int]":
    """Return (descriptor, path) -> position in bytes, of the files that a process has open for writing.

    Logs are left out. Empty: the process ended, or belongs to another user.
    """
    folder = os.path.join(proc, str(pid))
    found: dict[tuple[str, str], int] = {}
    for number in names(os.path.join(folder, "fd"))[:MAX_DESCRIPTORS]:
        path = read_link(os.path.join(folder, "fd", number))
        if path is None or not path.startswith("/") or path.startswith(_NO_FILES):
            continue
        if may_be_log(os.path.basename(path)):
            continue
        position = _written_to(read_text(os.path.join(folder, "fdinfo", number), 512) or "")
        if position is not None:
            found[number, path] = position
    return found


def _written_to(fdinfo: str) -> "int | None":
    """Return the position in a file that is open for writing; None: it is not."""
    facts = dict(line.partition(":")[::2] for line in fdinfo.splitlines())
    try:
        writable = int(facts["flags"].strip(), 8) & _WRITABLE
        return int(facts["pos"]) if writable else None
    except (KeyError, ValueError):
        return None


def growing(before: "dict[tuple[str, str], int]", after: "dict[tuple[str, str], int]") -> "dict[str, Any]":
    """Return `writes` (path) and `written_bytes` of the file that grew most; empty if none grew enough.

    A file that was opened meanwhile counts from its start.
    """
    grown = [(position - before.get(key, 0), key[1]) for key, position in after.items()]
    most, path = max(grown, default=(0, ""))
    return {"writes": clean(path, 4096), "written_bytes": most} if most >= LEAST_BYTES else {}
