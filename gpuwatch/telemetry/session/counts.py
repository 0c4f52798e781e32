"""Counts of a rank for the summary: communication, warnings by class, GPU readings. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Callable

from ..measures.distribution import Distribution

MAX_EXAMPLE = 500
"""Maximum length of an example of a warning."""
MAX_OPERATIONS = 200
SEVERITIES: Mapping[str, str] = {
    "num.nan_loss": "error", "num.nan_grad": "error", "ranks.params_differ": "error", "comm.timeout": "error",
    "ranks.grads_differ": "error", "comm.init_failed": "critical",
}  # fmt: skip
"""Severity of the library's classes of warnings; unlisted ones are warnings."""


class CommunicationCounts:
    """Count, bytes and time of each communication operation."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._lock = threading.Lock()
        self._found: dict[str, list[Any]] = {}

    def add(
        self, operation: str, size_bytes: float | None = None, duration_s: float | None = None, count: int = 1
    ) -> None:
        """Add `count` operations; size and duration are totals, None: unknown.

        Names beyond `MAX_OPERATIONS` count as `other`.
        """
        with self._lock:
            if operation not in self._found and len(self._found) >= MAX_OPERATIONS:
                operation = "other"
            sums = self._found.setdefault(operation, [0, None, None])
            sums[0] += count
            if size_bytes is not None:
                sums[1] = (sums[1] or 0) + int(size_bytes)
            if duration_s is not None:
                sums[2] = (sums[2] or 0.0) + duration_s

    def entries(self, step_seconds: float | None = None) -> list[dict[str, Any]]:
        """Return the `communication` list of a summary. `step_seconds`: time of all steps of this rank."""
        with self._lock:
            found = {name: list(sums) for name, sums in self._found.items()}
        return [
            {
                "operation": name,
                "count": count,
                "bytes_total": size,
                "bytes_avg": size / count if size is not None and count else None,
                "time_total_s": seconds,
                "time_avg_s": seconds / count if seconds is not None and count else None,
                "bandwidth_avg_bps": size / seconds if size is not None and seconds else None,
                "share_of_step_time": seconds / step_seconds
                if seconds is not None and step_seconds
                else None,
                "ranks": [self._rank],
            }
            for name, (count, size, seconds) in sorted(found.items())
        ]


class WarningCounts:
    """The warnings of a rank, counted by class."""

    def __init__(self, rank: int, wall: Callable[[], float]) -> None:
        self._rank = rank
        self._wall = wall
        self._lock = threading.Lock()
        self._found: dict[str, dict[str, Any]] = {}

    def add(self, name: str, text: str) -> bool:
        """Add a warning; return True if it is the first of its class, whose text becomes the example."""
        from ..base.masks import mask_text  # noqa: PLC0415 - compiles 30 patterns: the import stays light

        now = self._wall()
        with self._lock:
            if name in self._found:
                self._found[name]["count"] += 1
                self._found[name]["last"] = now
                return False
            self._found[name] = {
                "class": name,
                "severity": SEVERITIES.get(name, "warning"),
                "count": 1,
                "first": now,
                "last": now,
                "example": mask_text(" ".join(text.split())[:MAX_EXAMPLE]),
                "rank": self._rank,
            }
            return True

    def entries(self) -> list[dict[str, Any]]:
        """Return the `warnings` list of a summary."""
        with self._lock:
            return [dict(each) for _, each in sorted(self._found.items())]


class GpuCounts:
    """Averages and peaks of each GPU that this rank reads, with its facts, newest values and energy."""

    NAMES = ("utilization_pct", "memory_pct", "temperature_c", "power_w")

    def __init__(self, node: str) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._facts: dict[Any, dict[str, Any]] = {}
        self._numbers: dict[Any, dict[str, Distribution]] = {}
        self._recent: dict[Any, Distribution] = {}
        self._energy: dict[Any, tuple[float, float]] = {}
        self.newest: dict[Any, Mapping[str, Any]] = {}
        """The newest reading by UUID, or by index if the driver reports no UUID."""

    def add(self, reading: Mapping[str, Any]) -> None:
        """Add a reading, with the keys of `NvmlLibrary.reading` and of `identity`."""
        key = reading.get("uuid") or reading.get("index")
        with self._lock:
            self.newest[key] = reading
            self._facts[key] = {
                "node": self._node,
                **{name: reading.get(name) for name in ("index", "uuid", "name", "memory_total_bytes")},
            }
            numbers = self._numbers.setdefault(key, {name: Distribution() for name in self.NAMES})
            for name in self.NAMES:
                if reading.get(name) is not None:
                    numbers[name].add(float(reading[name]))
            if reading.get("utilization_pct") is not None:
                self._recent.setdefault(key, Distribution()).add(float(reading["utilization_pct"]))
            energy = reading.get("energy_j")
            if energy is not None:
                self._energy[key] = (self._energy.get(key, (energy, 0.0))[0], energy)

    def take_recent_utilization(self) -> dict[int, float]:
        """Return GPU index -> mean utilization (%) since the last call."""
        with self._lock:
            recent, self._recent = self._recent, {}
            means = {self._facts[key]["index"]: numbers.mean for key, numbers in recent.items()}
        return {index: mean for index, mean in means.items() if mean is not None}

    def entries(self) -> list[dict[str, Any]]:
        """Return the `gpus` list of a summary."""
        with self._lock:
            return [
                {
                    **facts,
                    "utilization_avg_pct": self._numbers[key]["utilization_pct"].mean,
                    "utilization_peak_pct": _largest(self._numbers[key]["utilization_pct"]),
                    "memory_avg_pct": self._numbers[key]["memory_pct"].mean,
                    "memory_peak_pct": _largest(self._numbers[key]["memory_pct"]),
                    "temperature_avg_c": self._numbers[key]["temperature_c"].mean,
                    "temperature_max_c": _largest(self._numbers[key]["temperature_c"]),
                    "power_avg_w": self._numbers[key]["power_w"].mean,
                    "energy_j": self._energy[key][1] - self._energy[key][0] if key in self._energy else None,
                    "samples": self._numbers[key]["utilization_pct"].count,
                }
                for key, facts in self._facts.items()
            ]


def _largest(numbers: Distribution) -> float | None:
    return numbers.largest if numbers.count else None
