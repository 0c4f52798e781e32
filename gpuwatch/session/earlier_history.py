"""Metrics of GPUs from before gpuwatch started, from an existing Prometheus (`--history-from`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.history import GpuHistory
from gpuwatch.hosts.prometheus_target import PrometheusTarget
from gpuwatch.link.prometheus.client import PrometheusClient, PrometheusError
from gpuwatch.link.prometheus.gpu_past import GpuPast, gpu_past

GATHER_S = 2.0
"""Seconds to collect new GPUs after the first, so that nodes that connect in turn share a query."""


class EarlierHistory:
    """Merges the past metrics of each GPU into the fleet's histories. Call `update` after every poll.

    Each GPU is queried once, on a thread and together with others; a query that failed is not repeated.
    """

    def __init__(self, target: PrometheusTarget, clock: Callable[[], float]) -> None:
        """Create the reader of past metrics; nothing is queried yet.

        `clock`: monotonic seconds of the session.
        """
        self._target, self._clock = target, clock
        self._asked: set[str] = set()
        self._since: float | None = None
        """When the first GPU appeared that was not queried yet (monotonic seconds)."""
        self._found: dict[str, GpuHistory] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._trouble: str | None = None

    def update(self, fleet: Fleet) -> None:
        """Merge the history that has arrived, and query new GPUs some seconds after the first appeared."""
        now = self._clock()
        self._apply(fleet)
        if self._thread is not None and self._thread.is_alive():
            return
        new = [gpu.info.uuid for gpu in fleet.gpus() if gpu.info.uuid not in self._asked]
        if not new:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now >= self._since + GATHER_S:
            self._asked.update(new)
            self._since = None
            self._thread = threading.Thread(target=self._ask, args=(new,), name="history", daemon=True)
            self._thread.start()

    def take_trouble(self) -> str | None:
        """Return why no history is available, the first time; afterwards None."""
        trouble, self._trouble = self._trouble, None
        return trouble

    def _ask(self, uuids: list[str]) -> None:
        try:
            past = gpu_past(PrometheusClient(self._target), uuids, self._clock)
        except PrometheusError as error:
            self._trouble = f"no history from {self._target.name}: {error}"
            return
        if not past:
            self._trouble = (
                f"no history from {self._target.name}: it has no series of any of {len(uuids)} GPUs"
            )
        histories = earlier_histories(past)
        with self._lock:
            self._found.update(histories)

    def _apply(self, fleet: Fleet) -> None:
        if not self._found:
            return
        with self._lock:
            for gpu in fleet.gpus():
                earlier = self._found.pop(gpu.info.uuid, None)
                if earlier is not None:
                    earlier.follow(gpu.history)
                    gpu.history = earlier
                    gpu.version += 1
            self._found.clear()


def earlier_histories(past: Mapping[str, GpuPast]) -> dict[str, GpuHistory]:
    """Return UUID -> history of the GPU up to now."""
    histories: dict[str, GpuHistory] = {}
    for uuid, each in past.items():
        history = histories[uuid] = GpuHistory()
        for at, reading in each.recent or each.day[-1:]:
            history.add(at, reading, each.recent_step_s)
        for at, reading in each.day:
            history.add_before(at, reading)
    return histories
