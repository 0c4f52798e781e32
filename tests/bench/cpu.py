"""CPU time and memory of other processes, from /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    measured: str
    goal: str
    holds: bool | None
    """None: nothing to compare with."""
    value: float | None = None
    """What was measured, to be compared with another run: seconds, bytes, a share of a core or a ratio."""


def cpu_s(pid: int) -> float:
    """User and system seconds of one process so far, its ended children included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICK


def rss_bytes(pid: int) -> int:
    """Resident memory now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def running_s(pid: int) -> float:
    """Seconds that a process's present threads have run, to the nanosecond; `cpu_s` counts in 10 ms."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def shares(pids: Iterable[int], seconds: float) -> list[float]:
    """Share of one core that each process used over the next `seconds`, all at the same time."""
    listed = list(pids)
    before = [running_s(pid) for pid in listed]
    began = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    return [(running_s(pid) - start) / took for pid, start in zip(listed, before, strict=True)]
