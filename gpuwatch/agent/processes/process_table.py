"""Who runs on this node: the cheap part of every process, and its place in the tree."""

import os

from ..base.procfs import clean, names, read_bytes

MAX_DEPTH = 24
ENDED = "Z"
_EXIT_CODE = 49
"""Place of exit_code behind the name; 0 where the kernel does not let us see it."""

_PF_KTHREAD = 0x00200000
"""include/linux/sched.h. Not the pid 2: in a container any process has it, and ranks may be its children."""


class Stat(object):
    """One line of /proc/PID/stat, as proc(5) numbers its fields."""

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

    def __init__(self, line):
        # type: (bytes) -> None
        head, _, tail = line.rpartition(b")")
        fields = tail.split()
        self.name = clean(head.partition(b"(")[2].decode("utf-8", "replace"), 64) or "?"
        self.state = fields[0].decode("ascii", "replace")
        self.parent = int(fields[1])
        self.is_kernel_thread = bool(int(fields[6]) & _PF_KTHREAD)
        self.cpu_ticks = int(fields[11]) + int(fields[12])
        self.start_ticks = int(fields[19])
        self.rss_pages = int(fields[21])
        self.exit_status = None  # type: int | None
        """Exit code, or minus a signal, of a failed process that its parent has not collected yet."""
        code = int(fields[_EXIT_CODE]) if self.state == ENDED and len(fields) > _EXIT_CODE else 0
        if code:
            self.exit_status = -(code & 0x7F) if code & 0x7F else code >> 8


def read_stat(proc, pid):
    # type: (str, int) -> Stat | None
    """None for a process that is not there (any more, or not in this pid namespace)."""
    line = read_bytes(os.path.join(proc, str(pid), "stat"), 2048)
    try:
        return Stat(line) if line else None
    except (ValueError, IndexError):
        return None


def pids(proc):
    # type: (str) -> list[int]
    """All processes that can be seen."""
    return [int(name) for name in names(proc) if name.isdigit()]


def boot_time(proc):
    # type: (str) -> float | None
    """Unix seconds at which the kernel started, of /proc/stat."""
    for line in (read_bytes(os.path.join(proc, "stat"), 1 << 20) or b"").splitlines():
        if line.startswith(b"btime "):
            return float(line.split()[1])
    return None


def seen_by(folder, path):
    # type: (str, str) -> str
    """A path of the process as we see it: it may live in a container, and in another folder."""
    if not os.path.isabs(path):
        path = os.path.join(os.readlink(os.path.join(folder, "cwd")), path)
    return os.path.join(folder, "root") + "/" + path.lstrip("/")


def values_of(environ):
    # type: (bytes) -> dict[bytes, bytes]
    """/proc/PID/environ as names and values."""
    return dict(entry.partition(b"=")[::2] for entry in environ.split(b"\0") if b"=" in entry)
