"""A /proc in which an agent sees only the processes of one test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def own_proc(folder: Path, pids: Iterable[int] = ()) -> str:
    """Make the folder; it has the files of the machine and these processes alone. Returns its path."""
    folder.mkdir()
    for name in ("self", "stat", "meminfo", "loadavg", "uptime", "sys", "mounts", *map(str, pids)):
        (folder / name).symlink_to(f"/proc/{name}")
    return str(folder)
