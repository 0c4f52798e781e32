"""Histories of a few values: 15 minutes at 1 s, then coarser to 24 hours, in bounded memory."""

from __future__ import annotations

from gpuwatch.wire import GpuFast, HostSample


class GpuHistory:
    """The series of one GPU."""

    def add(self, at: float, sample: GpuFast) -> None:
        """Take the values of one tick; `at` is our monotonic clock."""


class HostHistory:
    """The series of one host."""

    def add(self, at: float, sample: HostSample) -> None:
        """Take the values of one tick; `at` is our monotonic clock."""
