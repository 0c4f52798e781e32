"""Measures the agent's own resource use."""

import os
import threading
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WINDOW_S = 10.0
EVERY_S = 5.0
"""Seconds between two measurements, each of which reads three files in /proc."""


class Cost(object):
    """Measures the CPU time, memory, threads and NVML calls of agent and log reader in the last 10 s."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, float, int]] = deque()
        self._due = 0.0
        self._dropped = 0
        self._page = os.sysconf("SC_PAGE_SIZE")

    def is_due(self, now: float, dropped: int) -> bool:
        """Return True if the cost is to be measured: every 5 s, and when frames were dropped."""
        return now >= self._due or dropped != self._dropped

    def read(
        self, now: float, calls: int, gpus: int, dropped: int, reader: "tuple[float, int]" = (0.0, 0)
    ) -> "dict[str, Any]":
        """Return the agent's cost as a dict with the keys of `wire.AgentCost`.

        `calls`: NVML calls since the start, over all `gpus`. `reader`: CPU seconds and private resident bytes
        of the log reader; both run the same interpreter, whose shared pages are counted once. The use of
        ended readers is in the agent's own times, as of reaped children.
        """
        self._due, self._dropped = now + EVERY_S, dropped
        times = os.times()
        self._marks.append((now, times[0] + times[1] + times[2] + times[3] + reader[0], calls))
        while len(self._marks) > 2 and now - self._marks[1][0] >= _WINDOW_S:
            self._marks.popleft()
        cost: dict[str, Any] = {"threads": threading.active_count(), "dropped": dropped}
        rss = self._rss()
        if rss is not None:
            cost["rss_bytes"] = rss + reader[1]
        then, cpu, asked = self._marks[0]
        if now - then > 0.5:
            cost["cpu_pct"] = round(100.0 * max(0.0, self._marks[-1][1] - cpu) / (now - then), 3)
            if gpus:
                cost["nvml_calls_per_gpu_s"] = round((calls - asked) / (now - then) / gpus, 2)
        return cost

    def _rss(self) -> "int | None":
        try:
            with open("/proc/self/statm", "rb") as file:
                return int(file.read().split()[1]) * self._page
        except (OSError, ValueError, IndexError):
            return None
