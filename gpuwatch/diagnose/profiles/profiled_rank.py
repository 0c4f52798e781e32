"""The profile of one rank for reports: its threads, its cost, and the rank's pace during sampling."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gpuwatch.diagnose.profiles.call_tree import ProfileError, ThreadTree, profile_text, threads_of
from gpuwatch.wire import ProcessKernels, ProcessProfile


class RankPace(Struct, frozen=True):
    """The speed of a rank: median step time, and its CPU use. None: unknown."""

    step_s: float | None = None
    """Median duration of a step in seconds."""
    cpu_pct: float | None = None
    """Percent of one core."""


class ProfiledRank(Struct, frozen=True):
    """The samples of one rank with their cost and its pace, or why it could not be sampled."""

    rank: int
    node: str
    pid: int
    job: str | None
    gpu: int | None
    frames: int | None = None
    """Python frames of all threads of the rank together, before sampling."""
    threads: Sequence[ThreadTree] = ()
    """Main thread first."""
    measured: ProcessProfile | None = None
    before: RankPace = RankPace()
    during: RankPace = RankPace()
    why: str | None = None
    """Why there are no samples."""
    kernels: ProcessKernels | None = None
    """Times of the rank's GPU kernels, or why there are none; None: not requested."""

    @property
    def main(self) -> ThreadTree | None:
        """Return the main thread; without samples of it, the first thread that has some; None: no samples."""
        return self.threads[0] if self.threads else None

    @property
    def py_spy_cpu_pct(self) -> float | None:
        """Return the CPU use of py-spy while it ran, in percent of one core; None: not measured."""
        each = self.measured
        if each is None or each.py_spy_cpu_s is None or not each.seconds:
            return None
        return 100.0 * each.py_spy_cpu_s / each.seconds

    @property
    def errors_pct(self) -> float | None:
        """Return the percent of samples that could not be read; None: no samples."""
        if self.measured is None or not self.threads:
            return None
        whole = self.measured.errors + sum(each.samples for each in self.threads)
        return 100.0 * self.measured.errors / max(1, whole)


def read_threads(measured: ProcessProfile | None) -> tuple[list[ThreadTree], str | None]:
    """Return the threads of a profile; without any, an empty list and the reason (None: no profile yet)."""
    if measured is None or measured.why is not None or not measured.packed:
        return [], None if measured is None else measured.why or "no samples"
    try:
        found = threads_of(profile_text(measured.packed))
    except ProfileError as error:
        return [], str(error)
    return found, None if found else "no samples"
