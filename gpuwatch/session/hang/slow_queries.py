"""Samples the stacks of slow jobs automatically: /proc and py-spy --nonblocking, a few times per slowdown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuwatch.clock import SYSTEM, SessionClock
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.hang.stacks.groups import JobStacks
from gpuwatch.diagnose.straggler.sampled_stacks import slow_jobs, slow_rank

if TYPE_CHECKING:
    from gpuwatch.session.hang.hang_query import HangQuery
    from gpuwatch.session.hang.node_requests import NodeRequests

SAMPLES = 8
"""Number of samples per slowdown; ranks are sampled one after the other, so that one sample shows little."""
APART_S = 2.0
"""Seconds between two samples, so that they fall into different phases of a step."""
MAX_SAMPLE_S = 10.0
"""Seconds to wait for the answers of one sample."""


@dataclass
class _Sampling:
    """The samples of one slow job."""

    query: HangQuery | None = None
    due: float = 0.0
    taken: list[JobStacks] = field(default_factory=list)
    asked: int = 0
    over: bool = False


class SlowQueries:
    """Samples each job once per slowdown. Call `update` after every poll. It does not block."""

    def __init__(
        self, session: NodeRequests, book: Callable[[], AlertBook], clock: SessionClock = SYSTEM
    ) -> None:
        """Create the automatic sampling; nothing is requested yet. `book` returns the current alert book."""
        self._session = session
        self._book = book
        self._clock = clock
        self._jobs: dict[str, _Sampling] = {}

    def update(self) -> None:
        """Sample the slow jobs that are due; after the last sample, report the rank that seldom waits."""
        book = self._book()
        slow = slow_jobs(book.alerts)
        for job in [job for job in self._jobs if job not in slow]:
            del self._jobs[job]
            book.sampled.end(job)
        for job in slow:
            sampling = self._jobs.setdefault(job, _Sampling())
            if not sampling.over:
                self._sample(job, sampling)

    def _sample(self, job: str, sampling: _Sampling) -> None:
        now = self._clock.monotonic()
        if sampling.query is None:
            if now < sampling.due:
                return
            from gpuwatch.session.hang.hang_query import HangQuery, HangSources  # noqa: PLC0415 - loaded when a job is slow

            sampling.asked += 1
            sampling.query = HangQuery(
                self._session,
                silent_job=job,
                sources=HangSources(ras=False),
                longest_s=MAX_SAMPLE_S,
                clock=self._clock,
            )
        sampling.query.update()
        if not sampling.query.over:
            return
        reported = sampling.query.hang_report(self._session.fleet)
        sampling.taken += [each for each in reported.jobs if each.job == job]
        sampling.query, sampling.due = None, now + APART_S
        if sampling.asked >= SAMPLES:
            sampling.over = True
            found = slow_rank(sampling.taken, self._clock.wall())
            if found is not None:
                self._book().sampled.take(job, found)
