"""Reads CPU time and memory of a process from /proc."""

import os

from ...base.procfs import read_bytes

_TICKS_PER_S = float(os.sysconf("SC_CLK_TCK"))
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> "tuple[float, str | None]":
    """Return the CPU seconds of a process and its ended children, and its state; (0, None) if unknown."""
    line = read_bytes("/proc/{}/stat".format(pid), 2048)
    try:
        fields = (line or b"").rpartition(b")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS_PER_S, fields[0].decode("ascii")
    except (ValueError, IndexError):
        return 0.0, None


def own_bytes(pid: int) -> int:
    """Return the resident bytes of a process without pages of files and of shared memory; 0: unknown."""
    fields = (read_bytes("/proc/{}/statm".format(pid), 256) or b"").split()
    try:
        return (int(fields[1]) - int(fields[2])) * _PAGE
    except (ValueError, IndexError):
        return 0
