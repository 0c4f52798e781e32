"""Timers, memory and temperature of one rank, and their summaries; it needs no training loop."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.ranks import all_gather, identify, loaded_torch
from ..base.settings import TelemetrySettings
from ..gpu.own_gpus import OwnGpu, own_gpu
from ..measures.distribution import Distribution
from ..measures.timers import DeviceTimer, NoTimer, Timer, Timers
from ..summaries.cross_rank import cross_rank_statistics, default_names
from ..summaries.files import TelemetryFiles
from ..summaries.text import MIB, cross_rank_summary, rank_summary

_LOG = logging.getLogger("gpuwatch.telemetry")
MAX_MEMORY_ENTRIES = 1000
"""Maximum number of memory readings in a summary, the newest ones; the peak includes all."""


class RankTracker:
    """Measures one rank: timers, memory, temperature, and their summaries."""

    def __init__(
        self,
        settings: TelemetrySettings | None = None,
        *,
        output_dir: str | os.PathLike[str] | None = None,
        logger: logging.Logger | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.settings = settings or TelemetrySettings()
        self.facts = identify()
        folder = output_dir if output_dir is not None else self.settings.output_dir
        self._files = TelemetryFiles(Path(folder)) if folder is not None else None
        self._logger = logger
        self._clock = clock
        self._began = clock()
        self._timers = Timers()
        self._memory: deque[dict[str, float]] = deque(maxlen=MAX_MEMORY_ENTRIES)
        self._memory_peak: dict[str, float] = {}
        self._temperature = Distribution()
        self._gpu: OwnGpu | None = None
        self._has_looked_for_gpu = False

    @property
    def is_collecting(self) -> bool:
        """True if this rank measures: all do, or only rank 0 if `world_process_zero_only` is True."""
        return self.facts.rank == 0 or not self.settings.world_process_zero_only

    def timer(self, name: str) -> Timer | NoTimer:
        """Return a timer on the host's clock: for a block, or as a decorator for each call of a function."""
        return self._timers.timer(name) if self.is_collecting else NoTimer()

    def cuda_timer(self, name: str) -> Timer | DeviceTimer | NoTimer:
        """Return a timer for what a block computes on the GPU; without a GPU a `timer` of that name.

        Two events on the stream measure it; the host does not wait for the GPU, the time is read later.
        """
        return self._timers.device_timer(name) if self.is_collecting else NoTimer()

    def log_gpu_memory(
        self, custom_logger: Callable[[dict[str, float]], object] | None = None
    ) -> dict[str, float] | None:
        """Record and return what torch's allocator has `allocated` and `reserved`, in MiB.

        None: no GPU is used, or this rank does not measure.

        Args:
            custom_logger: Called with both values instead of adding them to the summary, which then has only
                the peak.
        """
        used = allocator_memory() if self.is_collecting else None
        if used is None:
            return None
        now, peak = used
        if custom_logger is not None:
            custom_logger(now)
        else:
            self._memory.append(now)
        for key, value in peak.items():
            self._memory_peak[key] = max(value, self._memory_peak.get(key, 0.0))
        return now

    def record_gpu_temperature(self) -> float | None:
        """Record and return the temperature of this rank's GPU in degrees Celsius.

        None: unknown, or this rank does not measure.
        """
        if not self.is_collecting:
            return None
        if not self._has_looked_for_gpu:
            self._has_looked_for_gpu, self._gpu = True, own_gpu(self.facts)
        if self._gpu is None:
            return None
        celsius = self._gpu.reading()["temperature_c"]
        if celsius is not None:
            self._temperature.add(celsius)
        return celsius  # type: ignore[no-any-return]  # NVML's reader is taken by capability

    def get_summary(self) -> dict[str, Any]:
        """Return the measurements of this rank.

        Returns:
            `hostname`, `rank`, `total_time` (s), `timers` and `cuda_timers` (name: `count`, and if it is not
            0 `mean`, `median`, `std_dev`, `min`, `max`, `total` in s, `percentage` of the total time),
            `gpu_memory` (list of `allocated`, `reserved` in MiB), `gpu_memory_peak`, `gpu_temperature` (C).
        """
        self._timers.settle()
        total = self._clock() - self._began
        return {
            "hostname": self.facts.host,
            "rank": self.facts.rank,
            "total_time": total,
            "timers": {name: timer_statistics(each, total) for name, each in self._timers.host.items()},
            "cuda_timers": {
                name: timer_statistics(each, total) for name, each in self._timers.device.items()
            },
            "gpu_memory": list(self._memory),
            "gpu_memory_peak": dict(self._memory_peak),
            "gpu_temperature": self._temperature.statistics() if self._temperature.count else {},
        }

    def print_summary(self) -> None:
        """Print the summary of this rank as one record, so that ranks do not interleave."""
        if self.is_collecting:
            self._say(rank_summary(self.get_summary()))

    def get_summaries_from_all_ranks(self) -> list[dict[str, Any]]:
        """Return the summaries of all ranks, by rank. A collective: every rank calls it."""
        return all_gather(self.get_summary())

    def compute_cross_rank_summaries(
        self,
        summaries: Sequence[Mapping[str, Any]] | None = None,
        *,
        measurement_names: Mapping[str, Any] | Iterable[str] | None = None,
    ) -> dict[str, Any]:
        """Return statistics across ranks; see `cross_rank_statistics`.

        Args:
            summaries: By rank; None gathers them from all ranks, which is a collective.
            measurement_names: The tree of wanted numbers; by default the temperature and all timers.
        """
        summaries = self.get_summaries_from_all_ranks() if summaries is None else summaries
        names = default_names(summaries) if measurement_names is None else measurement_names
        return cross_rank_statistics(summaries, names)

    def print_cross_rank_summary(self, summaries: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Print the statistics across ranks on rank 0. A collective if no summaries are given."""
        summaries = self.get_summaries_from_all_ranks() if summaries is None else summaries
        if self.facts.rank == 0:
            statistics = self.compute_cross_rank_summaries(summaries)
            self._say(cross_rank_summary(statistics, len(summaries)))

    def save(self, metrics: Mapping[str, Any] | None = None) -> None:
        """Write this rank's files to `output_dir`: timing statistics, and on rank 0 the metrics.

        Nothing is written without an `output_dir`, or if this rank does not measure. A failure is logged.
        """
        if self._files is None or not self.is_collecting:
            return
        try:
            self._files.write_summary(self.facts.rank, self.get_summary())
            if self.facts.rank == 0 and metrics is not None:
                self._files.write_metrics(self.facts.rank, metrics)
        except OSError as error:
            _LOG.warning("telemetry is not saved: %s", error)

    def save_all_ranks(self) -> None:
        """Write the files of all ranks on rank 0, if `output_dir` is set. Always a collective of all."""
        summaries = self.get_summaries_from_all_ranks()
        if self._files is None or self.facts.rank != 0:
            return
        try:
            self._files.write_all_ranks(summaries)
        except OSError as error:
            _LOG.warning("telemetry of all ranks is not saved: %s", error)

    def _say(self, text: str) -> None:
        if self._logger is not None:
            self._logger.info("%s", text)
            return
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        sys.stdout.write(
            text.encode(encoding, "replace").decode(encoding) + "\n"
        )  # a C locale has no degree sign
        sys.stdout.flush()


def timer_statistics(numbers: Distribution, total_s: float) -> dict[str, float]:
    """Return the statistics of a timer, its `total`, and its `percentage` of `total_s` seconds."""
    found = numbers.statistics()
    if numbers.count:
        found["total"] = numbers.total
        found["percentage"] = 100.0 * numbers.total / total_s if total_s > 0 else 0.0
    return found


def allocator_memory() -> tuple[dict[str, float], dict[str, float]] | None:
    """Return torch's `allocated` and `reserved` memory in MiB, now and at most; None: no GPU is used.

    An Apple GPU counts as used if there is one. It reports no maximum: its present values stand for it.
    """
    torch = loaded_torch()
    if torch is None:
        return None
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        cuda = torch.cuda
        now = {"allocated": cuda.memory_allocated() / MIB, "reserved": cuda.memory_reserved() / MIB}
        most = {"allocated": cuda.max_memory_allocated() / MIB, "reserved": cuda.max_memory_reserved() / MIB}
        return now, most
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        used, reserved = torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory()
        now = {"allocated": used / MIB, "reserved": reserved / MIB}
        return now, dict(now)
    return None
