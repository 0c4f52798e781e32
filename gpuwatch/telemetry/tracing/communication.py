"""`CommunicationProfiler`: the size, time and bandwidth of the ranks' communication."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Callable

from ..base.ranks import distributed, identify, loaded_torch
from ..measures.timers import DeviceEvents
from ..session.counts import CommunicationCounts

GRADIENT_SYNC = "gradient_sync"
OPERATIONS = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
    "broadcast", "reduce", "all_to_all", "all_to_all_single", "gather", "scatter", "send", "recv", "barrier",
)  # fmt: skip
"""Names of the functions of torch.distributed that `attach` measures."""


@dataclass(frozen=True)
class CommunicationStats:
    """The communication that this rank has measured."""

    rank: int
    operations: list[dict[str, Any]]
    """A list with one entry per operation.

    The keys are `operation`, `count`, `bytes_total`, `bytes_avg`, `time_total_s`, `time_avg_s`,
    `bandwidth_avg_bps`, `share_of_step_time` (always None here) and `ranks`; None if unknown.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics in JSON types, with the sums of all operations; unknown values count as 0."""
        sums = {
            key: sum(each[key] for each in self.operations if each[key] is not None)
            for key in ("count", "bytes_total", "time_total_s")
        }
        return {
            "rank": self.rank,
            **sums,
            "operations": {each["operation"]: each for each in self.operations},
        }


class CommunicationProfiler:
    """Measures communication in a block: `with CommunicationProfiler(tracker) as profiler:`.

    In the block the functions of `torch.distributed` are measured; the gradient synchronization of DDP, which
    does not use them, after `watch(ddp_model)`. On GPUs events of the stream measure the time, and the host
    does not wait. Operations with `async_op=True` are counted without a time.
    """

    def __init__(self, tracker: Any = None, *, enabled: bool = True, announce: bool = False) -> None:
        """Create a profiler.

        Args:
            tracker: A `TelemetryTracker`, which logs the measurements and stores them in the session.
            enabled: False: measure nothing, at no cost.
            announce: Log each operation's begin and end at DEBUG, so that a rank that hangs in one is found.
        """
        self.enabled = enabled
        self._facts = identify()
        self._counts = CommunicationCounts(self._facts.rank)
        self._tracker = tracker
        self._logger = logging.getLogger(f"rank_{self._facts.rank}.multigpu") if announce else None
        self._replaced: dict[str, Any] = {}
        self._events: DeviceEvents | None = None

    def add(
        self, operation: str, size_bytes: float | None = None, duration_s: float | None = None, count: int = 1
    ) -> None:
        """Add `count` operations that were timed elsewhere; size and duration are totals, None: unknown."""
        self._counts.add(operation, size_bytes, duration_s, count)
        if self._tracker is not None:
            self._tracker.communication(operation, size_bytes, duration_s, count)

    @contextlib.contextmanager
    def measure(self, operation: str, size_bytes: float | None = None) -> Iterator[None]:
        """Measure a block that communicates; a block that raises is not counted.

        `size_bytes`: the bytes transferred; None: unknown.
        """
        if not self.enabled:
            yield
            return
        self._announce("Starting %s", operation)
        if self._uses_cuda():
            start = self._device_events().mark()
            yield
            self._end_on_device(start, operation, size_bytes)
        else:
            began = time.perf_counter()
            yield
            self.add(operation, size_bytes, time.perf_counter() - began)
        self._announce("%s complete", operation)

    def watch(self, ddp_model: Any) -> None:
        """Measure the gradient synchronization of a DistributedDataParallel module; its result is unchanged.

        It sets the module's only communication hook.

        Raises:
            RuntimeError: the module has a hook.
        """
        if self.enabled:
            state = (self, ddp_model.process_group)
            hook = lambda state, bucket: gradient_hook(state, bucket)  # noqa: E731, PLW0108 - torch refuses annotations
            ddp_model.register_comm_hook(state, hook)

    def attach(self) -> None:
        """Measure the functions of torch.distributed from now on; does nothing if disabled or without it."""
        torch = loaded_torch()
        dist = getattr(torch, "distributed", None)
        if not self.enabled or dist is None or self._replaced:
            return
        for name in OPERATIONS:
            function = getattr(dist, name, None)
            if function is not None:
                self._replaced[name] = function
                setattr(dist, name, self._measured(name, function))

    def detach(self) -> None:
        """Restore the functions of torch.distributed."""
        dist = getattr(loaded_torch(), "distributed", None)
        while self._replaced:
            name, function = self._replaced.popitem()
            setattr(dist, name, function)

    def unmeasured(self, name: str) -> Callable[..., Any]:
        """Return the function `name` of torch.distributed without the measurement."""
        function: Callable[..., Any] = self._replaced.get(name) or getattr(loaded_torch().distributed, name)
        return function

    def get_stats(self) -> CommunicationStats:
        """Return the measurements so far; waits for pending GPU times."""
        if self._events is not None:
            self._events.drain(wait=True)
        return CommunicationStats(self._facts.rank, self._counts.entries())

    def __enter__(self) -> CommunicationProfiler:
        self.attach()
        return self

    def __exit__(self, *exc: object) -> None:
        self.detach()

    def _measured(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            size = bytes_of((*arguments, *options.values()))
            if options.get("async_op"):
                self.add(name, size)
                return function(*arguments, **options)
            with self.measure(name, size):
                return function(*arguments, **options)

        return call

    def begin_device_time(self) -> Any:
        """Return an event on the current stream if the ranks communicate on GPUs, else the host's clock."""
        return self._device_events().mark() if self._uses_cuda() else time.perf_counter()

    def end_device_time(self, begun: Any, operation: str, size_bytes: float | None) -> None:
        """Add an operation that began with `begin_device_time`."""
        if isinstance(begun, float):
            self.add(operation, size_bytes, time.perf_counter() - begun)
        else:
            self._end_on_device(begun, operation, size_bytes)

    def _end_on_device(self, start: Any, operation: str, size_bytes: float | None) -> None:
        events = self._device_events()
        events.pair(start, events.mark(), lambda seconds: self.add(operation, size_bytes, seconds))

    def _uses_cuda(self) -> bool:
        dist, torch = distributed(), loaded_torch()
        return dist is not None and torch.cuda.is_available() and "nccl" in str(dist.get_backend())

    def _device_events(self) -> DeviceEvents:
        if self._events is None:
            torch = loaded_torch()
            self._events = DeviceEvents(lambda: torch.cuda.Event(enable_timing=True))
        return self._events

    def _announce(self, text: str, operation: str) -> None:
        if self._logger is not None:
            self._logger.debug(f"Rank %d: {text}", self._facts.rank, operation)


def watch_gradients(tracker: Any, model: Any) -> CommunicationProfiler | None:
    """Measure the gradient synchronization of a DDP module for a tracker; return the profiler.

    None, with no effect, if the model is no DDP module or has a communication hook of its own, or if
    `detailed_communication_logs` is off.
    """
    torch = loaded_torch()
    is_ddp = torch is not None and isinstance(model, torch.nn.parallel.DistributedDataParallel)
    if not is_ddp or not tracker.settings.detailed_communication_logs:
        return None
    profiler = CommunicationProfiler(tracker)
    try:
        profiler.watch(model)
    except RuntimeError:  # its hook can be set once
        return None
    return profiler


def gradient_hook(state: tuple[CommunicationProfiler, Any], bucket: Any) -> Any:
    """Do DDP's default averaging of one bucket of gradients, with measurement; return its future.

    `state` has the profiler and the group.
    """
    profiler, group = state
    gradients = bucket.buffer()
    size = float(gradients.numel() * gradients.element_size())
    begun = profiler.begin_device_time()
    gradients.div_(loaded_torch().distributed.get_world_size(group))
    all_reduce = profiler.unmeasured("all_reduce")

    def done(reduced: Any) -> Any:
        profiler.end_device_time(begun, GRADIENT_SYNC, size)
        return reduced.value()[0]

    return all_reduce(gradients, group=group, async_op=True).get_future().then(done)


def bytes_of(values: Any) -> float | None:
    """Return the bytes of the first tensor, or list of tensors, in the arguments of a call; None if none."""
    for value in values:
        tensors = value if isinstance(value, (list, tuple)) else [value]
        if tensors and all(hasattr(each, "element_size") for each in tensors):
            return float(sum(each.numel() * each.element_size() for each in tensors))
    return None
