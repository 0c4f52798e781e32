"""`TrainingProfiler`: torch.profiler with the settings of a configuration, a table and a time breakdown."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Callable

from ..base.ranks import identify, loaded_torch

COMMUNICATION = re.compile(
    r"nccl|gloo|c10d::|all_?reduce|all_?gather|reduce_?scatter|broadcast_|all_?to_?all", re.IGNORECASE
)
COMPUTATION = re.compile(
    r"gemm|matmul|conv|aten::(?:mm|bmm|addmm|linear|baddbmm)\b|attention|cutlass|triton", re.IGNORECASE
)
ANNOTATION = re.compile(r"^ProfilerStep|^Optimizer\.|^DistributedDataParallel\.")
"""Matches ranges around operations, whose time is that of the operations inside."""
TABLE_ROWS = 20
HIGH_OVERHEAD = 0.3
"""Ratio of communication to computation above which the training waits for the network."""


@dataclass
class ProfilerSettings:
    """The options of torch.profiler and its schedule, under the names of training configurations."""

    enable_cpu_profiling: bool = True
    enable_cuda_profiling: bool = True
    profile_memory: bool = False
    record_shapes: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    save_dir: str = "log"
    """The parent of each rank's folder: `log/rank_0`."""
    enable_schedule: bool = True
    """True to follow the schedule; False: all steps of the block are recorded."""
    skip_first: int = 5
    wait: int = 1
    warmup: int = 1
    active: int = 3
    repeat: int = 2

    @classmethod
    def from_mapping(cls, configuration: Mapping[str, Any]) -> ProfilerSettings:
        """Return settings with the known names in a configuration and its sections, which take precedence."""
        names = {field.name for field in fields(cls)}
        found: dict[str, Any] = {}
        waiting = [configuration]
        while waiting:
            section = waiting.pop()
            found.update({name: section[name] for name in names & set(section)})
            inner = (section.get(name) for name in ("training", "profiler", "schedule"))
            waiting += [each for each in inner if isinstance(each, Mapping)]
        return cls(**found)


@dataclass(frozen=True)
class TimeBreakdown:
    """Device time (or CPU time, if no device was used) of a profiled step, in ms."""

    computation_ms: float
    communication_ms: float
    other_ms: float

    @property
    def communication_share(self) -> float | None:
        """Communication as a fraction of the total, 0 to 1; None if the total is 0."""
        total = self.computation_ms + self.communication_ms + self.other_ms
        return self.communication_ms / total if total else None

    @property
    def overhead(self) -> float | None:
        """Ratio of communication to computation; None without computation."""
        return self.communication_ms / self.computation_ms if self.computation_ms else None

    def per_step(self, steps: int) -> TimeBreakdown:
        """Return the mean times of one step, from those of all `steps` profiled ones together."""
        parts = (self.computation_ms, self.communication_ms, self.other_ms)
        return TimeBreakdown(*(part / max(1, steps) for part in parts))

    def line(self, step: int) -> str:
        """Return the log line, which progress dialects read as the timers of a step."""
        parts = (("computation", self.computation_ms), ("communication", self.communication_ms))
        text = " | ".join(f"{name}: {value:.3f} ms" for name, value in (*parts, ("other", self.other_ms)))
        return f"Profiler | step {step} | {text}"


def time_breakdown(events: Iterable[Any]) -> TimeBreakdown:
    """Return the times (ms) of a profile's averages, classified by the names of its operations.

    They are device times; if there are none, CPU times.
    """
    listed = [event for event in events if not ANNOTATION.search(event.key)]
    times = [_device_us(event) for event in listed]
    if not any(times):
        times = [float(event.self_cpu_time_total) for event in listed]
    sums = {"communication": 0.0, "computation": 0.0, "other": 0.0}
    for event, microseconds in zip(listed, times):
        kind = "other"
        if COMMUNICATION.search(event.key):
            kind = "communication"
        elif COMPUTATION.search(event.key):
            kind = "computation"
        sums[kind] += microseconds / 1e3
    return TimeBreakdown(sums["computation"], sums["communication"], sums["other"])


def _device_us(event: Any) -> float:
    """Return the device time in microseconds; the attribute was named after CUDA before torch 2.4."""
    value = getattr(event, "self_device_time_total", None)
    return float(getattr(event, "self_cuda_time_total", 0.0) if value is None else value)


class TrainingProfiler:
    """A block that torch.profiler records; call `step` after each training step.

    At the end of every cycle the trace is written to `save_dir/rank_N`, and the breakdown is logged.

    Raises:
        RuntimeError: on entering the block, torch is not imported.
    """

    def __init__(
        self,
        settings: ProfilerSettings | None = None,
        *,
        tracker: Any = None,
        logger: logging.Logger | None = None,
        enabled: bool = True,
    ) -> None:
        """Create a profiler.

        Args:
            settings: The options of torch.profiler and its schedule.
            tracker: A `TelemetryTracker`, which records the breakdown in the session.
            logger: Receives the breakdown; by default that of `setup_rank_logging`.
            enabled: False: profile nothing, at no cost.
        """
        self.settings = settings or ProfilerSettings()
        self.enabled = enabled
        self.rank = identify().rank
        self.steps = 0
        self.breakdown: TimeBreakdown | None = None
        """The breakdown of the newest cycle."""
        self.traces: list[Path] = []
        """The trace files of this rank."""
        self._tracker = tracker
        self._logger = logger or logging.getLogger(f"rank_{self.rank}")
        self._profile: Any = None
        self._table = ""

    @property
    def folder(self) -> Path:
        """The folder of this rank's traces."""
        return Path(self.settings.save_dir) / f"rank_{self.rank}"

    def step(self) -> None:
        """End a training step."""
        self.steps += 1
        if self._profile is not None:
            self._profile.step()

    def table(self) -> str:
        """Return torch's `key_averages().table` of the newest cycle, by device, else CPU time; "" before."""
        return self._table

    def __enter__(self) -> TrainingProfiler:
        if self.enabled:
            self._profile = self._made()
            self._profile.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._profile is not None:
            self._profile.__exit__(*exc)
            self._profile = None

    def _made(self) -> Any:
        torch = loaded_torch()
        if torch is None:
            raise RuntimeError("TrainingProfiler requires torch: import torch first")
        from torch import profiler  # noqa: PLC0415 - torch is optional

        chosen = self.settings
        activities = [profiler.ProfilerActivity.CPU] if chosen.enable_cpu_profiling else []
        if chosen.enable_cuda_profiling and torch.cuda.is_available():
            activities.append(profiler.ProfilerActivity.CUDA)
        schedule: Callable[[int], Any] | None = None
        if chosen.enable_schedule:
            names = ("skip_first", "wait", "warmup", "active", "repeat")
            schedule = profiler.schedule(**{name: getattr(chosen, name) for name in names})
        names = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
        switches = {name: getattr(chosen, name) for name in names}
        return profiler.profile(
            activities=activities, schedule=schedule, on_trace_ready=self._ready, **switches
        )

    def _ready(self, profile: Any) -> None:
        """Log the breakdown of a cycle and write its trace; on a full disk only the trace is lost."""
        events = profile.key_averages()
        active = self.settings.active if self.settings.enable_schedule else self.steps
        self.breakdown = time_breakdown(events).per_step(active)
        on_device = any(_device_us(event) for event in events)
        order = "self_cuda_time_total" if on_device else "self_cpu_time_total"
        self._table = events.table(sort_by=order, row_limit=TABLE_ROWS)
        line = self.breakdown.line(self.steps)
        self._logger.info("%s", line)
        if self._tracker is not None:
            self._tracker.recorder.profile(self.steps, line, asdict(self.breakdown))
        overhead = self.breakdown.overhead
        if overhead is not None and overhead > HIGH_OVERHEAD:
            remedy = "larger batches amortize it, overlap hides it, fewer tensor-parallel ranks avoid it"
            self._logger.warning("High communication overhead: %.2fx computation; %s", overhead, remedy)
        path = self.folder / f"{identify().host}_{os.getpid()}.{self.steps}.pt.trace.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            profile.export_chrome_trace(str(path))
            self.traces.append(path)
        except (OSError, RuntimeError) as error:
            self._logger.warning("the trace cannot be written: %s", error)
