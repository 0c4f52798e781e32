"""Observes each GPU for the emitter: fresh values, or the call that does not return."""

import time

from .base.nvml_codes import words
from .base.precision import rounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from typing import Any

    from .base.settings import Settings
    from .gpu.gpu_reader import GpuReader
    from .node_reader import NodeReader


class GpuWatch(object):
    """Builds the GPU part of a sample, and reports when a GPU begins and stops hanging in a call."""

    def __init__(self, node: "NodeReader", events: "deque[dict[str, Any]]", settings: "Settings") -> None:
        self.stuck: dict[int, str] = {}
        """Index -> call, of hung GPUs."""
        self._node = node
        self._events = events
        self._stuck_s = settings.stuck_s
        self._cold_s = settings.cold_s
        self._awake_at: float | None = None
        """When the first GPU was identified (monotonic): the driver runs."""
        self._missing: dict[str, dict[str, str]] = {}

    def sample(self, gpu: "GpuReader", known: "dict[str, Any]") -> "dict[str, Any]":
        """Return the GPU's state and new values as a dict with the keys of `wire.GpuSample`.

        `known`: the GPU's keys of `wire.GpuInfo`, whether it has answered or not.
        """
        now = time.monotonic()
        if self._awake_at is None and gpu.info is not None:
            self._awake_at = now
        running = gpu.asker.slot.in_call_for(now)
        call = self._hanging(gpu, known, running, now)
        uuid = known["uuid"]
        sample: dict[str, Any] = {"uuid": uuid}
        self._take(gpu, uuid, sample)
        if call is not None:
            sample["state"], sample["reason"] = "stuck", "no answer to " + call[0]
            sample["stuck_in"], sample["stuck_s"] = call[0], round(call[1], 1)
        elif gpu.lost is not None:
            sample["state"], sample["reason"] = "lost", words(gpu.lost.code)
        elif not gpu.answered:
            sample["state"] = "unanswered"
            if running is not None:
                sample["stuck_in"], sample["stuck_s"] = running[0], round(running[1], 1)
        if "state" in sample:
            self._node.holders.fall_silent(uuid)
        self._node.holders.expect(gpu.index, uuid, sample.get("state", "unanswered") == "unanswered")
        missing = gpu.asker.missing
        if self._missing.get(uuid, {}) != missing:
            self._missing[uuid] = missing
            sample["missing"] = missing
        return sample

    def _take(self, gpu: "GpuReader", uuid: str, sample: "dict[str, Any]") -> None:
        while gpu.found:
            kind, value = gpu.found.popleft()
            gpu.answered = gpu.answered or kind == "fast"
            if kind == "processes":
                self._node.holders.report(gpu.index, uuid, value)
            else:
                sample[kind] = rounded(value)
        unified = gpu.info is not None and gpu.info.get("unified_memory")
        if unified and "fast" in sample and self._node.memory is not None:
            used, total = self._node.memory
            if used is not None and total is not None:
                sample["fast"].update(memory_used_bytes=used, memory_total_bytes=total)

    def _hanging(
        self, gpu: "GpuReader", known: "dict[str, Any]", call: "tuple[str, float] | None", now: float
    ) -> "tuple[str, float] | None":
        """Return `call` (name, seconds in it) if the GPU hangs in it, else None; report begin and end."""
        if call is None or not self._too_long(gpu, call[1], now):
            if self.stuck.pop(gpu.index, None) is not None:
                self._report(known, "gpu_unstuck", "info", "GPU {} answers again".format(gpu.index))
            return None
        if gpu.index not in self.stuck:
            self.stuck[gpu.index] = call[0]
            self._report(
                known,
                "gpu_stuck",
                "critical",
                "GPU {} is stuck in {}".format(gpu.index, call[0]),
                "Read the kernel log for Xids. A process in state D cannot be killed: reboot.",
            )
        return call

    def _too_long(self, gpu: "GpuReader", seconds: float, now: float) -> bool:
        """Return True if a driver call that has lasted `seconds` counts as stuck.

        Before a GPU's first answer the driver may be starting: a call then counts from the time at which any
        GPU has answered, or once it has lasted `cold_s`.
        """
        if gpu.answered or seconds >= self._cold_s:
            return seconds >= self._stuck_s
        return self._awake_at is not None and min(seconds, now - self._awake_at) >= self._stuck_s

    def _report(
        self, known: "dict[str, Any]", event: str, severity: str, title: str, remedy: "str | None" = None
    ) -> None:
        facts = {"event": event, "severity": severity, "title": title, "source": "agent", "t": time.time()}
        if remedy is not None:
            facts["remedy"] = remedy
        facts["gpu"] = known["uuid"]
        self._events.append(facts)
