"""Joins the two reports of an Xid: NVML gives the code at once, the kernel log adds the detail."""

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

HOLD_S = 0.5
"""Seconds that NVML's report waits for the kernel's line, if the kernel log is readable."""
SAME_S = 10.0
"""Seconds by which NVML's and the kernel's report of one Xid may differ."""


class XidJoin(object):
    """Reports every Xid once: by the kernel's line if there is one, else by NVML's report."""

    def __init__(self) -> None:
        self._held: deque[tuple[float, dict[str, Any]]] = deque(maxlen=500)
        self._reported: deque[dict[str, Any]] = deque(maxlen=500)

    @property
    def held(self) -> int:
        """Return the number of NVML reports that wait for the kernel's line."""
        return len(self._held)

    def take(
        self,
        from_nvml: "Iterable[dict[str, Any]]",
        from_kernel: "Iterable[dict[str, Any]]",
        kernel_readable: bool,
        now: float,
    ) -> "list[dict[str, Any]]":
        """Return the Xid events to report now, given new ones (dicts with `code`, `t` and perhaps `gpu`).

        Events from NVML are held back for a while if the kernel log is readable: its line replaces them.
        `now`: monotonic seconds.
        """
        for event in from_nvml:
            same = _same_event(event, self._reported)
            if same is None:
                self._held.append((now, event))
            else:
                self._reported.remove(same)
        report = []
        for event in from_kernel:
            held = _same_event(event, [waiting for _, waiting in self._held])
            if held is None:
                self._reported.append(event)
            else:
                self._held = deque((pair for pair in self._held if pair[1] is not held), maxlen=500)
            report.append(event)
        while self._held and (not kernel_readable or now - self._held[0][0] >= HOLD_S):
            report.append(self._held.popleft()[1])
        return report


def placed(record: "dict[str, Any]", by_bus: "dict[str, str]") -> "dict[str, Any]":
    """Return a kernel-log record as an event, with the GPU's UUID, where known, instead of `bus_id`.

    Whole addresses are compared: on some machines (Grace) GPUs differ only in the PCI domain.
    """
    event = {name: value for name, value in record.items() if name != "bus_id"}
    uuid = by_bus.get(str(record.get("bus_id", "")).upper())
    if uuid is not None:
        event["gpu"] = uuid
    return event


def _same_event(event: "dict[str, Any]", others: "Iterable[dict[str, Any]]") -> "dict[str, Any] | None":
    """Return the event in `others`, the other source's reports, that reports the same Xid; None: none."""
    for other in others:
        same_gpu = other.get("gpu") is None or event.get("gpu") in (None, other.get("gpu"))
        if other["code"] == event["code"] and same_gpu and abs(other["t"] - event["t"]) <= SAME_S:
            return other
    return None
