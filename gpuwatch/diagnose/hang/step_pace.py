"""The pace of a job's logged steps, for jobs whose logs grow although no step is made.

Example: a job logs a step every 0.4 s. Rank 2 is stopped, while in each other rank a thread of the profiler
logs an error every 10 s: the newest line is never older than 10 s, the newest step is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from statistics import median

MIN_GAPS = 4
"""Least number of gaps between signs of activity that a median needs."""
GAPS_KEPT = 64
SILENT_GAPS = 5.0
"""Multiple of its usual gap after which a job is silent."""
LINES_S = 180.0
"""Seconds for which other lines than steps count as progress: an evaluation, a checkpoint."""
LONGEST_PAUSES = 2.0
"""Multiple of the longest pause between steps so far within which other lines count as progress."""


def usual_gap(gaps: Collection[float]) -> float | None:
    """Return the median of gaps in seconds; None: fewer than `MIN_GAPS` are known."""
    return median(gaps) if len(gaps) >= MIN_GAPS else None


@dataclass
class Gaps:
    """The newest `GAPS_KEPT` gaps between signs of activity, and the longest ever, in seconds."""

    newest: deque[float] = field(default_factory=lambda: deque(maxlen=GAPS_KEPT))
    longest_s: float = 0.0

    @property
    def usual_s(self) -> float | None:
        """Return the median gap between signs of activity in seconds; None before there are `MIN_GAPS`."""
        return usual_gap(self.newest)

    def add(self, gap_s: float) -> None:
        """Add a gap that ended."""
        self.newest.append(gap_s)
        self.longest_s = max(self.longest_s, gap_s)


@dataclass
class StepPace:
    """The gaps between the logged steps of one job."""

    moved: float | None = None
    """When any rank last logged a step (monotonic seconds); None: no rank has."""
    gaps: Gaps = field(default_factory=Gaps)

    def see(self, at: float, tolerance_s: float) -> None:
        """Record that the newest step was logged at `at`; times within `tolerance_s` are the same step."""
        if self.moved is None:
            self.moved = at
        elif at > self.moved + tolerance_s:
            self.gaps.add(at - self.moved)
            self.moved = at

    def is_overdue(self, now: float, stopped_s: float | None) -> bool:
        """Return True if no step was logged for so long that other lines no longer count as progress.

        Always False before `MIN_GAPS` gaps are known.

        Args:
            now: Monotonic seconds.
            stopped_s: The window of a job of which some ranks are stopped, others not; None: no such job.
        """
        usual_s = self.gaps.usual_s
        if self.moved is None or usual_s is None:
            return False
        pause_s = max(LINES_S, LONGEST_PAUSES * self.gaps.longest_s) if stopped_s is None else stopped_s
        return now - self.moved > pause_s + SILENT_GAPS * usual_s
