"""Times each iteration of an operation, by the CPU's clock or by CUDA events."""

from __future__ import annotations

import time
from typing import Callable, List, Protocol

from gpuwatch.probe.ranks.shared import words
from gpuwatch.probe.ranks.shared.torch_types import Event, Torch

_POLL_S = 0.0005


class GpuStuckError(TimeoutError):
    """Raised if the GPU did not finish in time; later work waits behind it."""


class Clock(Protocol):
    """The interface of `CpuClock` and `CudaClock`."""

    def times(
        self, call: Callable[[], object], warmup: int, iterations: int, timeout_s: float, /
    ) -> List[float]:
        """Return the seconds of every timed iteration."""

    def settle(self, timeout_s: float, /) -> None:
        """Wait until no work is pending."""


class CpuClock:
    """The clock for gloo: a barrier starts all ranks together, and a call returns when it has its result."""

    def __init__(self, barrier: Callable[[], object]) -> None:
        self._barrier = barrier

    def times(
        self, call: Callable[[], object], warmup: int, iterations: int, _timeout_s: float
    ) -> List[float]:
        """Return the seconds of every timed iteration.

        Gloo raises an exception if one takes longer than the group allows.
        """
        for _ in range(warmup):
            call()
        took = []
        for _ in range(iterations):
            self._barrier()
            start = time.perf_counter()
            call()
            took.append(time.perf_counter() - start)
        return took

    def settle(self, _timeout_s: float) -> None:
        """No-op: nothing is pending after a call has returned."""


class CudaClock:
    """Times NCCL and GPU work by CUDA events: all are recorded without waiting, then the last is waited for.

    The host's speed has no influence.
    """

    def __init__(self, torch: Torch) -> None:
        self._torch = torch

    def times(
        self, call: Callable[[], object], warmup: int, iterations: int, timeout_s: float
    ) -> List[float]:
        """Return the seconds of every timed iteration, by the GPU's clock.

        Raises:
            GpuStuckError: the GPU did not finish within `timeout_s`.
        """
        for _ in range(warmup):
            call()
        events = [self._torch.cuda.Event(enable_timing=True) for _ in range(iterations + 1)]
        events[0].record()
        for event in events[1:]:
            call()
            event.record()
        self._wait(events[-1], timeout_s)
        return [events[i].elapsed_time(events[i + 1]) / 1000 for i in range(iterations)]

    def settle(self, timeout_s: float) -> None:
        """Wait until the GPU has done all its work.

        Raises:
            GpuStuckError: the GPU did not finish within `timeout_s`.
        """
        event = self._torch.cuda.Event()
        event.record()
        self._wait(event, timeout_s)

    @staticmethod
    def _wait(event: Event, timeout_s: float) -> None:
        """Poll the event until it is reached: `synchronize` has no time limit.

        Raises:
            GpuStuckError: the event was not reached within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        while not event.query():
            if time.monotonic() > deadline:
                raise GpuStuckError(f"the GPU did not finish it within {words.seconds(timeout_s)}")
            time.sleep(_POLL_S)
