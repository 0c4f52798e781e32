"""Counts how often torchrun restarted the ranks of a job, and adds text about it to the job's incidents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from gpuwatch.diagnose.hang.silence.stepless_jobs import restarts_of
from gpuwatch.diagnose.incidents.resolution import Attempt
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.text import clock
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.number_text import plural

MAX_JOBS = 4096
"""Most jobs whose restarts are kept; the oldest entry is dropped first."""


class RestartCounts:
    """Stores the number of restarts of at most MAX_JOBS jobs, also after their ranks ended."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def take(self, fleet: Fleet) -> None:
        """Update each job's highest restart count, which torchrun gives to its ranks."""
        for node in fleet.nodes.values():
            for process in node.processes:
                count = restarts_of(process) if process.rank is not None else 0
                if count and process.job is not None:
                    self._counts[process.job] = max(count, self._counts.get(process.job, 0))
        while len(self._counts) > MAX_JOBS:
            del self._counts[next(iter(self._counts))]

    def with_counts(
        self, incidents: Sequence[Incident], running: Mapping[str, Attempt], wall: float
    ) -> list[Incident]:
        """Return the incidents; those of restarted jobs have a sentence on the restarts in `restarted`.

        `wall`: unix seconds.
        """
        return [
            structs.replace(each, restarted=self._text(each.job, running.get(each.job), wall))
            if each.job is not None and each.job in self._counts
            else each
            for each in incidents
        ]

    def _text(self, job: str, attempt: Attempt | None, wall: float) -> str:
        times = f"restarted {plural(self._counts[job], 'time')}"
        if attempt is None:
            return f"{times}, no rank runs any more"
        began = clock(attempt.began, wall)
        return f"{times}, the last time {began}" + ("" if attempt.steps else ": no step since")
