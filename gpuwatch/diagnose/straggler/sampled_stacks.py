"""Finds the rank of a slow job that stack samples seldom show waiting.

Example: the steps of a job take twice as long as before, and no timer, clock or CPU use shows why. Its ranks
are sampled eight times, one after the other. Ranks 0-2 are in all_reduce in five to seven samples, rank 3 in
none: it is in `read_shard (data.py:9)`, and the others wait for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from msgspec import Struct, structs

from gpuwatch.diagnose.hang.stacks.groups import JobStacks, RankStack
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.check_interval import PeriodicWatch
from gpuwatch.diagnose.model.failure_classes import of_kinds
from gpuwatch.diagnose.straggler.alerts import CODE, TITLE
from gpuwatch.fleet.fleet import Fleet

MIN_SAMPLES = 6
MAX_OWN_SHARE, MIN_OTHERS_SHARE, MEAN_OTHERS_SHARE = 0.15, 0.3, 0.5
"""Most share of samples in which the slow rank waits, least share for each other rank, and their mean.

With eight samples: at most one, at least three, and four.
"""
EVERY_S = 5.0
SLOW_STEPS = of_kinds("slow_steps")
"""Classes of steps that take longer than before: the job's ranks are sampled."""


class LaggingRank(Struct, frozen=True):
    """The rank that seldom waits: where it was instead, and in how many samples that was."""

    rank: int
    node: str
    gpu: int | None
    seen: int
    samples: int
    what: str
    """Where the rank was, such as `in read_shard (data.py:9)`."""
    others: str
    """Where the other ranks were, such as `in all_reduce, called by train_step (train.py:31)`."""
    at: float
    """When the rank was last sampled (unix seconds)."""

    @property
    def text(self) -> str:
        """Return a sentence about the rank, without its node and GPU."""
        where = f"{self.what} in {self.seen} of {self.samples} stack samples"
        return f"{where}, the others mostly {self.others}: every step waits for it"


def slow_rank(samples: Sequence[JobStacks], at: float) -> LaggingRank | None:
    """Return the only rank of a job that seldom waits while all others often do; None: there is none.

    The waiting place is a collective, or, if the frames show none, where ranks are most often.
    `at`: when the last sample was taken (unix seconds).
    """
    seen = [each for each in samples if each.by == "python"]
    waits = {spot.what for each in seen for spot in each.spots if spot.call is not None}
    places: dict[int, Counter[str]] = defaultdict(Counter)
    stacks: dict[int, RankStack] = {}
    for each in seen:
        for spot in each.spots:
            for stack in spot.ranks:
                places[stack.rank][spot.what] += 1
                stacks[stack.rank] = stack
    total = sum(places.values(), Counter())
    waits = waits or {what for what, _ in total.most_common(1)}
    shares = {rank: sum(own[what] for what in waits) / len(seen) for rank, own in places.items()}
    few = [rank for rank, share in shares.items() if share <= MAX_OWN_SHARE]
    others = [share for rank, share in shares.items() if rank not in few]
    if len(seen) < MIN_SAMPLES or len(few) != 1 or not others:
        return None
    if min(others) < MIN_OTHERS_SHARE or fmean(others) < MEAN_OTHERS_SHARE:
        return None
    (rank,) = few
    elsewhere = [each for each in places[rank].most_common() if each[0] not in waits]
    if not elsewhere:  # it answered in few samples, and waited in all of these
        return None
    what, count = elsewhere[0]
    usual = max(waits, key=lambda each: total[each])
    stack = stacks[rank]
    return LaggingRank(rank, stack.node, stack.gpu, count, len(seen), what, usual, at)


class SampledStacksWatch(PeriodicWatch):
    """Raises the alert about the rank that samples single out, while its job is slow."""

    def __init__(self) -> None:
        super().__init__(EVERY_S)
        self._found: dict[str, LaggingRank] = {}

    def take(self, job: str, found: LaggingRank) -> None:
        """Store the result of sampling the ranks of a slow job."""
        self._found[job] = found
        self.hurry()

    def end(self, job: str) -> None:
        """Remove the result of a job that is no longer slow."""
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
    """Return the jobs whose steps take longer than before, and whose slow rank is unknown."""
    firing = [alert for alert in alerts.values() if alert.state == "firing" and alert.job is not None]
    known = {alert.job for alert in firing if alert.code == CODE and not alert.id.startswith(_PREFIX)}
    slow = {alert.job for alert in firing if alert in SLOW_STEPS and alert.job is not None}
    return slow - known


_PREFIX = "sampled "
"""Prefix of the ids of alerts about sampled ranks."""


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
