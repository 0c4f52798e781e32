"""Jobs whose logs are silent at one moment, for reports that look once; `hang_watch` follows silences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuwatch.diagnose.model.condition import duration
from gpuwatch.diagnose.model.text import job_text, plural
from gpuwatch.fleet.nodes.node import Node

SILENT_WINDOWS = 2
"""Windows of a hang (`Thresholds.hang_s`): trainings report a step more often."""


@dataclass(frozen=True)
class SilentJob:
    """A job that may hang, or whose trainer writes seldom."""

    job: str | None
    """None: ranks that name no job."""
    ranks: int
    """That were seen."""
    nodes: tuple[str, ...]
    seconds: float
    """Since the youngest line in a log of any of its ranks."""

    @property
    def text(self) -> str:
        """`job 4711: 8 ranks, and no line in their logs for 3m 20s`."""
        silent = duration(self.seconds)
        return f"{job_text(self.job)}: {plural(self.ranks, 'rank')}, and no line in their logs for {silent}"


def silent_jobs(nodes: Iterable[Node], hang_s: float, wall: float) -> list[SilentJob]:
    """Jobs of several ranks, all of whose known logs are older than `SILENT_WINDOWS`.

    Args:
        nodes: Where their ranks run.
        hang_s: One window, in seconds.
        wall: Unix seconds now.
    """
    ranks: dict[str | None, int] = {}
    places: dict[str | None, dict[str, None]] = {}
    ages: dict[str | None, list[float]] = {}
    for node in nodes:
        grown = {file.path: node.silent_s(file, wall) for file in node.logs}
        for process in node.processes:
            if process.rank is None:
                continue
            ranks[process.job] = ranks.get(process.job, 0) + 1
            places.setdefault(process.job, {})[node.name] = None
            known = [age for path in process.logs if (age := grown.get(path)) is not None]
            ages.setdefault(process.job, []).extend(known)
    return [
        SilentJob(job, count, tuple(places[job]), min(ages[job]))
        for job, count in ranks.items()
        if count > 1 and ages[job] and min(ages[job]) > SILENT_WINDOWS * hang_s
    ]
