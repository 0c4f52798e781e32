"""Reads the cheap facts of every process on this node, and its place in the tree."""

import os

from ..base.procfs import clean, names, read_bytes

MAX_DEPTH = 24
ENDED = "Z"
STOPPED = "T"
_EXIT_CODE = 49
"""Index of exit_code after the name; 0 if the kernel hides it."""

_PF_KTHREAD = 0x00200000
"""Flag of kernel threads (include/linux/sched.h).

The pid 2 is unsuitable: in a container it is any process.
"""


class Stat(object):
    """One line of /proc/PID/stat, with fields as numbered in proc(5)."""

    __slots__ = (
        "cpu_ticks",
        "exit_status",
        "is_kernel_thread",
        "name",
        "parent",
        "rss_pages",
        "start_ticks",
        "state",
    )

    def __init__(self, line: bytes) -> None:
        head, _, tail = line.rpartition(b")")
        fields = tail.split()
        self.name = clean(head.partition(b"(")[2].decode("utf-8", "replace"), 64) or "?"
        self.state = fields[0].decode("ascii", "replace")
        self.parent = int(fields[1])
        self.is_kernel_thread = bool(int(fields[6]) & _PF_KTHREAD)
        self.cpu_ticks = int(fields[11]) + int(fields[12])
        self.start_ticks = int(fields[19])
        self.rss_pages = int(fields[21])
        self.exit_status: int | None = None
        """Exit code, or minus a signal, of a failed process that its parent has not reaped yet."""
        code = int(fields[_EXIT_CODE]) if self.state == ENDED and len(fields) > _EXIT_CODE else 0
        if code:
            self.exit_status = -(code & 0x7F) if code & 0x7F else code >> 8


def read_stat(proc: str, pid: int) -> "Stat | None":
    """Return the /proc line of a process; None if it does not exist (or not in this pid namespace)."""
    line = read_bytes(os.path.join(proc, str(pid), "stat"), 2048)
    try:
        return Stat(line) if line else None
    except (ValueError, IndexError):
        return None


def pids(proc: str) -> "list[int]":
    """Return the pids of all visible processes."""
    return [int(name) for name in names(proc) if name.isdecimal()]


def boot_time(proc: str) -> "float | None":
    """Return the boot time in unix seconds, from /proc/stat, or None."""
    for line in (read_bytes(os.path.join(proc, "stat"), 1 << 20) or b"").splitlines():
        if line.startswith(b"btime "):
            return float(line.split()[1])
    return None


def seen_by(folder: str, path: str) -> str:
    """Return the path by which this process reaches a file of another one, which may be in a container.

    `folder`: of the other process in /proc.

    Raises:
        OSError: a relative path, and the process's folder cannot be read.
    """
    if not os.path.isabs(path):
        path = os.path.join(os.readlink(os.path.join(folder, "cwd")), path)
    return os.path.join(folder, "root") + "/" + path.lstrip("/")


def values_of(environ: bytes) -> "dict[bytes, bytes]":
    """Return /proc/PID/environ as a dict of names and values."""
    return dict(entry.partition(b"=")[::2] for entry in environ.split(b"\0") if b"=" in entry)
