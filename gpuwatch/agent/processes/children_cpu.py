"""The processes that ranks have started (tokenizers, data loaders, compilers), and their CPU use.

A rank that waits for them sleeps itself, and is busy all the same.
"""

import os

from ..base.procfs import read_text
from .process_details import inner_pid
from .process_table import read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

    from .known_processes import KnownProcesses

MAX_CHILDREN = 1024
LEAST_PCT = 1.0
"""Percent of a core below which the CPU use of a rank's children is not reported."""
MAX_STATUS = 1 << 13
"""Bytes of /proc/PID/status that are read."""
MAX_LISTED = 32
"""Newest processes that are listed for a rank."""


class ChildrenCpu(object):
    """Measures the CPU use of the processes that ranks have started, between two readings."""

    def __init__(self, proc: str, processes: "KnownProcesses") -> None:
        self._proc = proc
        self._processes = processes
        self.pids: dict[int, list[int]] = {}
        """Pid of a rank -> its descendants, as of the last reading."""
        self._before: dict[int, tuple[float, int]] = {}
        """Pid -> when it was read (monotonic), and its CPU ticks."""
        self._inner: dict[int, int | None] = {}
        """Pid -> pid in its container, for requested ranks; None: no container."""

    def inner(self, rank: int) -> "list[int]":
        """Return the pids that a rank's descendants have in its container, as log lines state them.

        Descendants outside any container are left out.
        """
        listed = self.pids.get(rank, ())
        for pid in listed:
            if pid not in self._inner:
                status = read_text(os.path.join(self._proc, str(pid), "status"), MAX_STATUS) or ""
                self._inner[pid] = inner_pid(status)
        found = [self._inner[pid] for pid in listed]
        return [pid for pid in found if pid is not None]

    def read(self, ranks: "set[int]", candidates: "Iterable[int]", now: float) -> "dict[int, float]":
        """Return pid of a rank -> percent of one core that its descendants use, from `LEAST_PCT` on.

        A descendant counts from its second reading on. `candidates`: other processes with the environment of
        a rank. Sets `pids`.
        """
        before, self._before, self.pids = self._before, {}, {}
        used: dict[int, float] = {}
        for pid in sorted(set(candidates) - ranks)[:MAX_CHILDREN]:
            rank = next((above for above in self._processes.ancestors(pid) if above in ranks), None)
            found = None if rank is None else read_stat(self._proc, pid)
            if rank is None or found is None:
                continue
            self.pids[rank] = [*self.pids.get(rank, ())[1 - MAX_LISTED :], pid]
            self._before[pid] = now, found.cpu_ticks
            at, ticks = before.get(pid, (now, 0))
            if now > at and found.cpu_ticks >= ticks:
                spent_s = (found.cpu_ticks - ticks) / self._processes.ticks_per_s
                used[rank] = used.get(rank, 0.0) + 100.0 * spent_s / (now - at)
        self._inner = {pid: inner for pid, inner in self._inner.items() if pid in self._before}
        return {rank: share for rank, share in used.items() if share >= LEAST_PCT}
