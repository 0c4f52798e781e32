"""Builds small /proc and /sys trees, and a kernel log to write into."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

UPTIME = 200_000.0


def write(root: Path, files: Mapping[str, str]) -> Path:
    """Files by relative path; parents are made, text gets its newline as kernel files have it."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def process(
    proc: Path,
    pid: int,
    environ: Mapping[str, str],
    *,
    parent: int = 1,
    name: str = "python",
    start: int = 5000,
) -> Path:
    """One process of a fake /proc, with an environment; `start` in clock ticks since boot."""
    folder = proc / str(pid)
    write(folder, {"stat": stat_line(pid, name, parent, start)})
    (folder / "environ").write_bytes(b"\0".join(f"{key}={value}".encode() for key, value in environ.items()))
    (folder / "cmdline").write_bytes(name.encode() + b"\0train.py\0")
    return folder


def stat_line(pid: int, name: str, parent: int, start: int, ticks: int = 0) -> str:
    """A line of /proc/PID/stat with 52 fields."""
    fields = [str(pid), f"({name})", "S", str(parent), *["0"] * 48]
    fields[13], fields[21], fields[23] = str(ticks), str(start), "100"
    return " ".join(fields)


def wait_until(condition: Callable[[], bool], pause: Callable[[float], None], tries: int = 400) -> bool:
    """Poll a condition for up to 20 s."""
    for _ in range(tries):
        if condition():
            return True
        pause(0.05)
    return condition()


class Kmsg:
    """A packet-mode pipe: like /dev/kmsg it gives one record a read."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        keep = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.path = str(path)
        self.sequence = 0
        self.open()
        os.close(keep)

    def open(self) -> None:
        self.writer = os.open(self.path, os.O_WRONLY)
        fcntl.fcntl(self.writer, fcntl.F_SETFL, os.O_DIRECT)

    def emit(self, text: str, ago: float = 0.0, priority: int = 4) -> None:
        self.sequence += 1
        stamp = int((UPTIME - ago) * 1e6)
        os.write(self.writer, f"{priority},{self.sequence},{stamp},-;{text}\n SUBSYSTEM=pci\n".encode())


def own_proc(folder: Path, pids: Iterable[int] = ()) -> str:
    """Make the folder; it has the files of the machine and these processes alone. Returns its path."""
    folder.mkdir()
    for name in ("self", "stat", "meminfo", "loadavg", "uptime", "sys", "mounts", *map(str, pids)):
        (folder / name).symlink_to(f"/proc/{name}")
    return str(folder)
