"""The rank that most stack samples of a slow job find at work while the others wait for it.

Example: the steps of a job take twice as long as before, and no timer, clock or CPU use shows why. Its ranks
are sampled five times; in four of them rank 3 is in `read_shard (data.py:9)`, the others in all_reduce.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from gpuwatch.diagnose.hang.answer import without_ranks
from gpuwatch.diagnose.hang.stacks.groups import JobStacks
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.check_interval import PeriodicWatch
from gpuwatch.diagnose.straggler.alerts import CODE, TITLE
from gpuwatch.fleet.fleet import Fleet

SLOW = "train.slow"
"""Code of the alert that a job's steps take longer than before."""
MIN_SAMPLES = 3
"""Samples in which the same rank must stand out."""
MIN_SHARE = 0.6
"""Their share of all samples; a rank that is late by chance stands out in few."""
EVERY_S = 5.0


class LaggingRank(Struct, frozen=True):
    """The rank that stood out: in how many samples, where it was, and what the others did."""

    rank: int
    node: str
    gpu: int | None
    seen: int
    samples: int
    what: str
    """`in read_shard (data.py:9), while 3 of 4 ranks are in all_reduce`."""
    at: float
    """When it was sampled last (unix seconds)."""

    @property
    def text(self) -> str:
        """Return a sentence without the place."""
        return f"{self.what}, in {self.seen} of {self.samples} samples: every step waits for it"


def slow_rank(samples: Sequence[JobStacks], at: float) -> LaggingRank | None:
    """Return the rank of one job that stands out in most samples; None: none does, or two do.

    `at`: when the last sample was taken (unix seconds).
    """
    named = [
        (each.testimony.culprits[0], each)
        for each in samples
        if each.by == "python" and each.testimony.wrong and len(each.testimony.culprits) == 1
    ]
    counts = Counter(rank for rank, _ in named).most_common(2)
    if not counts or counts[0][1] < max(MIN_SAMPLES, MIN_SHARE * len(samples)):
        return None
    rank, seen = counts[0]
    places = Counter(without_ranks(each.testimony.sentence) for number, each in named if number == rank)
    last = next(each for number, each in reversed(named) if number == rank)
    stack = next((one for spot in last.spots for one in spot.ranks if one.rank == rank), None)
    if stack is None:
        return None
    return LaggingRank(rank, stack.node, stack.gpu, seen, len(samples), places.most_common(1)[0][0], at)


class SampledStacksWatch(PeriodicWatch):
    """Raises the alert about a sampled rank while its job is slow."""

    def __init__(self) -> None:
        super().__init__(EVERY_S)
        self._found: dict[str, LaggingRank] = {}

    def take(self, job: str, found: LaggingRank) -> None:
        """Store the result of sampling a slow job."""
        self._found[job] = found
        self.hurry()

    def end(self, job: str) -> None:
        """Remove the result: the job is slow no longer."""
        if self._found.pop(job, None) is not None:
            self.hurry()

    def _check(self, fleet: Fleet, now: float, wall: float) -> bool:
        del fleet, now
        wanted = {alert.id: alert for alert in (_alert(*each, wall) for each in self._found.items())}
        before = {name for name, alert in self.alerts.items() if alert.state == "firing"}
        for name in before - wanted.keys():
            self.alerts[name] = structs.replace(self.alerts[name], state="resolved")
        for name in wanted.keys() - before:
            self.alerts[name] = wanted[name]
        return before != wanted.keys()


def slow_jobs(alerts: Mapping[str, Alert]) -> set[str]:
    """Return the jobs whose steps take longer than before, and of which no rank is known to cause it."""
    firing = [alert for alert in alerts.values() if alert.state == "firing" and alert.job is not None]
    known = {alert.job for alert in firing if alert.code == CODE and not alert.id.startswith(_PREFIX)}
    return {alert.job for alert in firing if alert.code == SLOW and alert.job is not None} - known


_PREFIX = "sampled "
"""Of the ids of these alerts."""


def _alert(job: str, one: LaggingRank, wall: float) -> Alert:
    return Alert(
        id=f"{_PREFIX}{CODE}@{job}:{one.rank}",
        code=CODE,
        severity="warning",
        title=TITLE,
        text=one.text,
        proof=(Proof("value", one.text, one.at, node=one.node),),
        role="hint",
        node=one.node,
        gpu=one.gpu,
        rank=one.rank,
        rank_from="process",
        job=job,
        first=one.at,
        last=wall,
    )
