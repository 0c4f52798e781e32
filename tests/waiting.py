"""What a test waits for: the end of a process, or anything that comes true."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(holds: Callable[[], bool], longest_s: float = 60.0) -> None:
    """Poll until it holds; fail after `longest_s`."""
    until = time.monotonic() + longest_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)
