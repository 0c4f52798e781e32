"""Tracks when a job resumed training after it had failed: what fails later is another incident.

Example: the ranks of a job end at 10:00:00, torchrun starts them again, and they log steps at 10:00:08 and
10:00:09. This is Resumption(began=10:00:00.5, proved=10:00:09). An error at 10:01:00 belongs to a new
incident, and the one of 10:00:00 stays closed whatever happens later.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.failure_classes import STOPS_RANKS
from gpuwatch.diagnose.model.timing import APART_S, Resumption
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress

PROOF_STEPS = 2
"""Least logged steps that prove that a new attempt trains."""
SAME_START_S = 5.0
"""Starts of the ranks of one attempt are at most this far apart (seconds)."""
LEAVING_S = 10.0
"""Seconds for which the ranks of an attempt that its launcher ends may still log steps."""
MAX_JOBS = 4096
MAX_OF_JOB = 64
"""Most resumptions that are kept per job; the oldest is dropped first."""


class Resumptions:
    """Stores the resumptions of each job (`of_job`), also after its ranks ended."""

    def __init__(self) -> None:
        self.of_job: dict[str, tuple[Resumption, ...]] = {}

    def take(
        self, fleet: Fleet, began: Mapping[str, float], alerts: Iterable[Alert], now: float, wall: float
    ) -> bool:
        """Record new attempts, and the jobs that train now; return True if `of_job` changed.

        Args:
            fleet: All that is known now.
            began: Running job -> start of its living ranks (unix seconds).
            alerts: All alerts.
            now: Monotonic seconds, the clock of the fleet's steps.
            wall: Unix seconds at the same moment.
        """
        before = self.of_job.copy()
        ended: dict[str, set[float]] = defaultdict(set)
        for alert in alerts:
            if alert in STOPS_RANKS and alert.timed and alert.job is not None and alert.job not in began:
                ended[alert.job].update((alert.first, alert.last))
        for writer in fleet.progress.writers.values():
            if writer.job is None:
                continue
            if writer.job in began:
                self._start(writer.job, began[writer.job])
                self._keep(writer, [began[writer.job]], APART_S, wall - now)
            elif writer.job in ended:
                self._keep(writer, sorted(ended[writer.job]), LEAVING_S, wall - now)
        while len(self.of_job) > MAX_JOBS:
            del self.of_job[next(iter(self.of_job))]
        return self.of_job != before

    def _keep(self, writer: RankProgress, starts: Iterable[float], later_s: float, offset_s: float) -> None:
        """Store a resumption for each start of `starts` after which the writer logged PROOF_STEPS steps.

        `starts`: unix seconds. `later_s`: steps sooner than this after a start do not count. `offset_s`: unix
        seconds minus the clock of the steps.
        """
        job = writer.job or ""
        for start in starts:
            known = self.of_job.get(job, ())
            if any(each.trained and each.began - SAME_START_S < start < each.proved for each in known):
                continue
            newest = [step.at + offset_s for step in (*writer.past[-1:], *islice(reversed(writer.steps), 1))]
            if max(newest, default=-math.inf) <= start + later_s:
                continue
            steps = [step.at + offset_s for step in writer.curve() if math.isfinite(step.at)]
            later = sorted(at for at in steps if at > start + later_s)
            if len(later) >= PROOF_STEPS:
                found = Resumption(start, later[PROOF_STEPS - 1])
                others = [each for each in known if each.trained or abs(each.began - start) >= SAME_START_S]
                self.of_job[job] = tuple(sorted((*others, found)))[-MAX_OF_JOB:]

    def _start(self, job: str, start: float) -> None:
        """Add an attempt that has not trained yet, unless one with about this or a later start is known."""
        known = self.of_job.get(job, ())
        if not any(each.began > start - SAME_START_S for each in known):
            self.of_job[job] = (*known, Resumption(start))[-MAX_OF_JOB:]


def went_on_at(alerts: Sequence[Alert]) -> float | None:
    """Return when all ranks of a group had resumed after its errors (unix seconds).

    None: a rank did not, or no alert is an error.
    """
    grave = [alert for alert in alerts if alert.severity in GRAVE]
    times = [alert.recovered_at for alert in grave if alert.recovered_at is not None]
    return max(times) if times and len(times) == len(grave) else None
