"""What the emitter sees of each GPU from outside: fresh values, or the call that does not come back."""

import time

from .returns import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque  # noqa: F401 - used in type comments
    from typing import Any  # noqa: F401 - used in type comments

    from .gpu import Gpu  # noqa: F401 - used in type comments
    from .node import Node  # noqa: F401 - used in type comments


class GpuWatch(object):
    """Makes the GPU part of a sample; tells when a GPU begins and ends to hang."""

    def __init__(self, node, events, stuck_s):
        # type: (Node, deque[dict[str, Any]], float) -> None
        self.stuck = {}  # type: dict[int, str]
        """Index -> call, of the GPUs that hang now."""
        self._node = node
        self._events = events
        self._stuck_s = stuck_s
        self._missing = {}  # type: dict[str, dict[str, str]]

    def sample(self, gpu, papers):
        # type: (Gpu, dict[str, Any] | None) -> dict[str, Any] | None
        """A dict with the keys of `wire.GpuSample`; None while nobody knows the UUID, or it may still answer.

        `papers` is what can be known of a GPU that has never answered.
        """
        call = self._hanging(gpu, papers)
        known = gpu.info or papers
        if known is None or (gpu.info is None and gpu.lost is None and call is None):
            return None
        uuid = known["uuid"]
        sample = {"uuid": uuid}  # type: dict[str, Any]
        self._take(gpu, uuid, sample)
        if call is not None:
            sample["state"], sample["reason"] = "stuck", "no answer to " + call[0]
            sample["stuck_in"], sample["stuck_s"] = call[0], round(call[1], 1)
        elif gpu.lost is not None:
            sample["state"], sample["reason"] = "lost", words(gpu.lost.code)
        if "state" in sample:
            self._node.holders.fall_silent(uuid)
        missing = gpu.asker.missing
        if self._missing.get(uuid, {}) != missing:
            self._missing[uuid] = missing
            sample["missing"] = missing
        return sample

    def _take(self, gpu, uuid, sample):
        # type: (Gpu, str, dict[str, Any]) -> None
        while gpu.found:
            kind, value = gpu.found.popleft()
            if kind == "processes":
                self._node.holders.tell(gpu.index, uuid, value)
            else:
                sample[kind] = _rounded(value)
        unified = gpu.info is not None and gpu.info.get("unified_memory")
        if unified and "fast" in sample and self._node.memory is not None:
            used, total = self._node.memory
            if used is not None and total is not None:
                sample["fast"].update(memory_used_bytes=used, memory_total_bytes=total)

    def _hanging(self, gpu, papers):
        # type: (Gpu, dict[str, Any] | None) -> tuple[str, float] | None
        """(call, seconds in it) of a GPU that hangs."""
        call = gpu.asker.slot.stuck_for(time.monotonic())
        if call is None or call[1] < self._stuck_s:
            if self.stuck.pop(gpu.index, None) is not None:
                self._tell(gpu, papers, "gpu_unstuck", "info", "GPU {} answers again".format(gpu.index))
            return None
        if gpu.index not in self.stuck:
            self.stuck[gpu.index] = call[0]
            self._tell(
                gpu,
                papers,
                "gpu_stuck",
                "critical",
                "GPU {} is stuck in {}".format(gpu.index, call[0]),
                "Read the kernel log for Xids. What hangs in state D cannot be killed: reboot.",
            )
        return call

    def _tell(self, gpu, papers, event, severity, title, remedy=None):
        # type: (Gpu, dict[str, Any] | None, str, str, str, str | None) -> None
        facts = {"event": event, "severity": severity, "title": title, "source": "agent", "t": time.time()}
        if remedy is not None:
            facts["remedy"] = remedy
        known = gpu.info or papers
        if known is not None:
            facts["gpu"] = known["uuid"]
        self._events.append(facts)


def _rounded(values):
    # type: (dict[str, Any]) -> dict[str, Any]
    """Three decimals are enough for everything, and cost less on the way."""
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in values.items()}
