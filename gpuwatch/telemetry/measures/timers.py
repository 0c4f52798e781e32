"""Timers by name, on the host's clock or on GPU events."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any

from ..base.ranks import loaded_torch
from .distribution import Distribution

_LOG = logging.getLogger("gpuwatch.telemetry")
MAX_PENDING_EVENTS = 512
"""Maximum number of event pairs that the GPU has not reached; beyond it the oldest is waited for."""


class Timer(ContextDecorator):
    """Times a block, or each call of a function, on the host's clock, even if it raises."""

    __slots__ = ("_add", "_start")

    def __init__(self, add: Callable[[float], None]) -> None:
        self._add = add
        self._start = 0.0

    def __enter__(self) -> Timer:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self._add(time.perf_counter() - self._start)

    def _recreate_cm(self) -> Timer:
        return Timer(self._add)  # a decorated function may call itself


class NoTimer(ContextDecorator):
    """A timer that measures nothing, for a rank that collects nothing."""

    def __enter__(self) -> NoTimer:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


class DeviceTimer(ContextDecorator):
    """Times the work that a block queues on the GPU's stream, by two events; the host does not wait.

    A block that raises is not timed.
    """

    def __init__(self, events: DeviceEvents, numbers: Distribution) -> None:
        self._events = events
        self._numbers = numbers
        self._start: Any = None

    def __enter__(self) -> DeviceTimer:
        self._start = self._events.mark()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:  # an event after a failed kernel would raise over the error that counts
            self._events.pair(self._start, self._events.mark(), self._numbers.add)

    def _recreate_cm(self) -> DeviceTimer:
        return DeviceTimer(self._events, self._numbers)


class DeviceEvents:
    """Pairs of timing events whose time is read after the GPU has passed them."""

    def __init__(self, new_event: Callable[[], Any], max_pending: int = MAX_PENDING_EVENTS) -> None:
        self._new_event = new_event
        self._pending: deque[tuple[Any, Any, Callable[[float], object]]] = deque()
        self._free: list[Any] = []
        self._max_pending = max_pending

    def mark(self) -> Any:
        """Record an event on the current stream, and return it."""
        event = self._free.pop() if self._free else self._new_event()
        event.record()
        return event

    def pair(self, start: Any, end: Any, take: Callable[[float], object]) -> None:
        """Register two events, whose difference in seconds is passed to `take` once the GPU has passed them.

        Also read up to two registered pairs that are ready; beyond `max_pending`, wait for the oldest.
        """
        self._pending.append((start, end, take))
        self.drain(wait=len(self._pending) > self._max_pending, most=2)

    def drain(self, *, wait: bool = False, most: int | None = None) -> None:
        """Read at most `most` pairs of events that the GPU has passed, the oldest first.

        `wait`: wait for the GPU, but if `most` is given, only for the first pair. If the GPU has failed, all
        pending pairs are dropped.
        """
        while self._pending and (most is None or most > 0):
            start, end, take = self._pending[0]
            try:
                if wait:
                    end.synchronize()
                elif not end.query():
                    return
                take(start.elapsed_time(end) / 1e3)
            except (
                RuntimeError
            ) as error:  # the GPU has failed: its times are lost, the script sees the error itself
                _LOG.debug("pending GPU timings are dropped: %s", error)
                self._pending.clear()
                return
            self._pending.popleft()
            self._free += [start, end]
            wait, most = wait and most is None, None if most is None else most - 1


class Timers:
    """The timers of a rank by name."""

    def __init__(self, new_event: Callable[[], Any] | None = None) -> None:
        self.host: dict[str, Distribution] = {}
        self.device: dict[str, Distribution] = {}
        self._new_event = new_event
        self._events: DeviceEvents | None = None

    def timer(self, name: str) -> Timer:
        """Return a timer on the host's clock, for a block or as a decorator."""
        numbers = self.host.get(name)
        if numbers is None:
            numbers = self.host.setdefault(name, Distribution())
        return Timer(numbers.add)

    def device_timer(self, name: str) -> Timer | DeviceTimer:
        """Return a timer for a block's work on the GPU; on the host's clock if the script uses no GPU."""
        if self._events is None:
            new_event = self._new_event or device_event()
            if new_event is None:
                return self.timer(name)
            self._events = DeviceEvents(new_event)
        numbers = self.device.get(name)
        if numbers is None:
            numbers = self.device.setdefault(name, Distribution())
        return DeviceTimer(self._events, numbers)

    def add(self, name: str, seconds: float) -> None:
        """Add a time in seconds, measured elsewhere, to those of `name`."""
        numbers = self.host.get(name)
        if numbers is None:
            numbers = self.host.setdefault(name, Distribution())
        numbers.add(seconds)

    def clear(self) -> None:
        """Drop all times, for example those of warm-up steps."""
        self.settle()
        self.host.clear()
        self.device.clear()

    def settle(self) -> None:
        """Wait for the pending GPU times and add them."""
        if self._events is not None:
            self._events.drain(wait=True)


def device_event() -> Callable[[], Any] | None:
    """Return the function that creates a timing event of the script's GPU (CUDA, ROCm, MPS); None: no GPU."""
    torch = loaded_torch()
    if torch is None:
        return None
    if torch.cuda.is_available():
        return lambda: torch.cuda.Event(enable_timing=True)
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available() and hasattr(torch.mps, "Event"):
        return lambda: torch.mps.Event(enable_timing=True)
    return None
