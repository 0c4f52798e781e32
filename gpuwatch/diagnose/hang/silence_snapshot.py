"""Jobs whose logs are silent at one moment, for reports that look once; `hang_watch` follows silences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isfinite
from statistics import median

from gpuwatch.diagnose.model.condition import duration
from gpuwatch.diagnose.model.text import job_text, plural
from gpuwatch.fleet.logs.progress import FleetProgress
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import Process

SILENT_WINDOWS = 2
"""Windows of a hang (`Thresholds.hang_s`): trainings report a step more often."""
STALLED_GAPS = 20.0
"""A silence of so many usual gaps between logged steps is no longer one of them: an evaluation, or a hang."""
MIN_GAPS = 4
"""Fewer gaps have no meaningful median."""


@dataclass(frozen=True)
class SilentJob:
    """A job that may hang, or whose trainer writes seldom."""

    job: str | None
    """None: ranks that name no job."""
    ranks: int
    """That were seen."""
    nodes: tuple[str, ...]
    seconds: float
    """Since the youngest line in a log of any of its ranks, or since their start where none has written."""
    usual_s: float | None = None
    """Seconds between the steps that it logged before; None: not known."""

    @property
    def is_stalled(self) -> bool:
        """Whether the job logged its steps far more often before."""
        return self.usual_s is not None and self.seconds > STALLED_GAPS * self.usual_s

    @property
    def text(self) -> str:
        """`job 4711: 8 ranks, and no line in their logs for 3m 20s`."""
        silent = duration(self.seconds)
        before = f"; before, a step every {self.usual_s:.2g} s" if self.usual_s and self.is_stalled else ""
        ranks = f"{job_text(self.job)}: {plural(self.ranks, 'rank')}"
        return f"{ranks}, and no line in their logs for {silent}{before}"


def silent_jobs(
    nodes: Iterable[Node], hang_s: float, wall: float, progress: FleetProgress | None = None
) -> list[SilentJob]:
    """Jobs of several ranks, all of whose known logs are older than `SILENT_WINDOWS`.

    Args:
        nodes: Where their ranks run.
        hang_s: One window, in seconds.
        wall: Unix seconds now.
        progress: The steps that they logged.
    """
    usual = {} if progress is None else _usual_gaps(progress)
    ranks: dict[str | None, int] = {}
    places: dict[str | None, dict[str, None]] = {}
    ages: dict[str | None, list[float]] = {}
    for node in nodes:
        grown = {file.path: node.silent_s(file, wall) for file in node.logs if file.source != "kernel"}
        for process in node.processes:
            if process.rank is None:
                continue
            ranks[process.job] = ranks.get(process.job, 0) + 1
            places.setdefault(process.job, {})[node.name] = None
            ages.setdefault(process.job, []).extend(_silences(node, process, grown, wall))
    return [
        SilentJob(job, count, tuple(places[job]), min(ages[job]), usual.get(job))
        for job, count in ranks.items()
        if count > 1 and ages[job] and min(ages[job]) > SILENT_WINDOWS * hang_s
    ]


def _silences(
    node: Node, process: Process, grown: Mapping[str, float | None], wall: float
) -> Iterator[float]:
    """Seconds since each of its followed logs grew; since its start where one holds nothing of its own."""
    age = None if process.start is None else max(0.0, wall - (process.start - node.offset_s))
    for path in process.logs:
        if path in grown:
            known = [each for each in (grown[path], age) if each is not None]
            yield from [min(known)] if known else []


def _usual_gaps(progress: FleetProgress) -> dict[str | None, float]:
    """Job -> the shortest median gap (seconds) between the steps that one of its logs holds."""
    found: dict[str | None, float] = {}
    for writer in progress.writers.values():
        moments = [step.at for step in writer.curve() if isfinite(step.at)]
        gaps = [later - before for before, later in pairwise(moments) if later > before]
        if len(gaps) >= MIN_GAPS:
            found[writer.job] = min(median(gaps), found.get(writer.job, inf))
    return found
