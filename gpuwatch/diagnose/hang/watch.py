"""Who is silent for how long: the memory that hang verdicts need, and the alerts that come of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from statistics import median
from typing import TypeAlias

from msgspec import structs

from gpuwatch.diagnose.alert import Alert, Proof
from gpuwatch.diagnose.hang.signs import RankSigns, jobs_of
from gpuwatch.diagnose.hang.verdict import SilentHang, computes, verdict
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import Thresholds

Usual: TypeAlias = Callable[[Sequence[RankSigns], float], dict[str, float]]
"""(ranks, seconds of silence) -> UUID -> watts while the GPU trained."""
Look: TypeAlias = tuple[str, tuple[int, ...]]
"""The reading of a silence, and the ranks that stand out."""

CODE = "job.hang"
EVERY_S = 2.0
STEPS = 5.0
"""A job is silent when so many of its usual gaps have passed (DESIGN section 6)."""
LEAST_GAPS = 4
"""Fewer gaps have no median worth the name."""
GAPS_KEPT = 64
GONE_S = 60.0
"""A job whose ranks have all ended is forgotten after so long."""
TRAINED_S = 600.0
POINTS = 60
WORKED_PCT = 50.0
PAUSES = 5.0
"""GPUs that stand still may wait for a checkpoint, and one that works alone may evaluate: that many windows.
Where all stand still, also twice the longest pause so far."""
BLIND = 10.0
"""Where nobody knows what the busy GPUs do, silence alone must speak: that many windows."""
COMPUTING = 4.0
"""Where the ranks of GPUs that stand still compute (a compiler, a tokeniser), so many times that long."""
KNOWN_PAUSE, LONGEST_KNOWN_S = 1.5, 600.0
"""A pause that looked the same and ended by itself may last half as long again: saving, evaluating."""
LAST_S = 6.0
"""The verdict must stand for so long: one look may fall between two states."""
LATE_S = 20.0
"""The same where no usual gap is known, as when we came into the silence: it may be saving, or evaluating."""


@dataclass
class Job:
    """What is remembered of one job."""

    moved: float
    """When any of its ranks last wrote (monotonic)."""
    seen: float
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=GAPS_KEPT))
    usual_w: dict[str, float] = field(default_factory=dict)
    trains: bool = False
    """Whether it has told a step: a server that nobody asks anything is silent, too."""
    since: float | None = None
    """When the verdict that stands now was first given."""

    longest_s: float = 0.0
    """The longest gap that it came out of by itself."""
    looks: Look | None = None
    """What the present silence looked like last."""
    pauses: dict[Look, float] = field(default_factory=dict)
    """The longest silence of each look that ended by itself."""
    members: dict[int, RankSigns] = field(default_factory=dict)
    """Its ranks since it last moved, as they were seen last."""
    deaf: bool = False
    """Nodes whose ranks spoke for the job cannot be heard: nobody knows whether it is silent."""

    @property
    def usual_s(self) -> float | None:
        """Median gap between two signs of life; None before there were enough."""
        return median(self.gaps) if len(self.gaps) >= LEAST_GAPS else None

    def wake(self, at: float) -> None:
        """It moved at that time (monotonic), after a gap."""
        gap_s = at - self.moved
        self.gaps.append(gap_s)
        self.longest_s = max(self.longest_s, gap_s)
        if self.looks is not None:
            known_s = max(gap_s, self.pauses.get(self.looks, 0.0))
            self.pauses[self.looks], self.looks = min(known_s, LONGEST_KNOWN_S), None
        self.moved = at
        self.members.clear()
        self.usual_w.clear()  # it works: what it draws is asked anew when it falls silent


class HangWatch:
    """Looks at every job at a slow pace; `alerts` are those that hang, and those that did."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._jobs: dict[str, Job] = {}
        self._at = float("-inf")
        self.alerts: dict[str, Alert] = {}

    def go(self, fleet: Fleet, now: float, wall: float) -> bool:
        """Look, if it is time; True when an alert fired, changed or ended."""
        if now - self._at < EVERY_S:
            return False
        self._at = now
        return self.see(jobs_of(fleet, now, wall), partial(trained, fleet, now), now, wall)

    def see(self, jobs: Mapping[str, Sequence[RankSigns]], usual: Usual, now: float, wall: float) -> bool:
        """Take in what all jobs show now; as `go`."""
        moved = False
        for name, ranks in jobs.items():
            moved |= self._look(name, ranks, usual, now, wall)
        for name in [name for name, job in self._jobs.items() if now - job.seen > GONE_S]:
            del self._jobs[name]
            moved |= self._end(name)
        return moved

    def _look(self, name: str, ranks: Sequence[RankSigns], usual: Usual, now: float, wall: float) -> bool:
        said = [
            (age, rank.heard) for rank in ranks for age in (rank.wrote_s, rank.stepped_s) if age is not None
        ]
        if not said:
            return False
        youngest = min(age for age, _ in said)
        at = now - youngest
        job = self._jobs.setdefault(name, Job(moved=at, seen=now))
        job.seen = now
        job.trains |= any(rank.stepped_s is not None for rank in ranks)
        limit = max(self._thresholds.hang_s, STEPS * (job.usual_s or 0.0))
        if min((age for age, heard in said if heard), default=inf) > youngest + limit:
            job.deaf, job.since = True, None
            return False
        if job.deaf and self._firing(name) is None:
            job.moved = now  # what was said meanwhile is still on its way
        job.deaf = False
        if at > job.moved + EVERY_S / 2:
            job.wake(at)
        quiet_s, usual_s = now - job.moved, job.usual_s
        here = {rank.rank: rank for rank in ranks}
        job.members.update(here)
        gone = [rank for number, rank in sorted(job.members.items()) if number not in here]
        found = None
        if job.trains and quiet_s > limit:
            job.usual_w = job.usual_w or usual(ranks, quiet_s)
            found = verdict(name, ranks, quiet_s, usual_s, job.usual_w, gone)
        if found is not None:
            job.looks = found.reading, tuple(rank.rank for rank in found.suspects)
            found = found if quiet_s > patience(found, ranks, job, limit) else None
        if found is None:
            job.since = None
            return self._end(name)
        job.since = now if job.since is None else job.since
        lasts_s = LAST_S if usual_s is not None else LATE_S
        return now - job.since >= lasts_s and self._tell(found, wall - quiet_s, wall)

    def _firing(self, job: str) -> Alert | None:
        alert = self.alerts.get(f"{CODE}@{job}")
        return alert if alert is not None and alert.state == "firing" else None

    def _tell(self, hang: SilentHang, began: float, wall: float) -> bool:
        name = f"{CODE}@{hang.job}"
        before = self.alerts.get(name)
        text = hang.what if len(hang.suspects) == 1 else hang.sentence
        if before is not None and before.state == "firing" and before.text == text:
            return False
        suspect = hang.suspects[0] if len(hang.suspects) == 1 else None
        proof = tuple(Proof("value", text, began) for text in hang.evidence)
        alert = Alert(
            id=name,
            code=CODE,
            severity="error" if hang.reading in ("host", "busy") else "critical",
            title="The job hangs",
            text=text,
            proof=proof,
            role="first",
            node=None if suspect is None else suspect.node,
            gpu=None if suspect is None else suspect.gpu,
            rank=None if suspect is None else suspect.rank,
            rank_from=None if suspect is None else "process",
            job=hang.job,
            first=began,
            last=wall,
            count=1 if before is None else before.count + (before.state == "resolved"),
            fields={"confidence": hang.confidence, "settle": "; ".join(hang.settle)},
        )
        self.alerts[name] = alert
        return True

    def _end(self, job: str) -> bool:
        alert = self._firing(job)
        if alert is None:
            return False
        self.alerts[alert.id] = structs.replace(alert, state="resolved")
        return True


def patience(hang: SilentHang, ranks: Sequence[RankSigns], job: Job, limit: float) -> float:
    """Seconds of silence up to which a job that shows these signs may be well."""
    known_s = KNOWN_PAUSE * job.pauses.get((hang.reading, tuple(rank.rank for rank in hang.suspects)), 0.0)
    if hang.reading == "host":
        computing = 2 * sum(map(computes, ranks)) > len(ranks)
        return max((COMPUTING if computing else 1.0) * PAUSES * limit, 2 * job.longest_s, known_s)
    if hang.reading == "busy":
        return max(BLIND * limit, known_s)
    works_alone = hang.reading == "spin" and hang.suspects
    if works_alone or (hang.reading == "waiting_for_one" and any(map(computes, hang.suspects))):
        return max(PAUSES * limit, known_s)  # such as the rank that evaluates, or saves the model, for all
    return max(limit, known_s)


def trained(fleet: Fleet, now: float, ranks: Sequence[RankSigns], quiet_s: float) -> dict[str, float]:
    """The median power of every GPU in the ten minutes before the silence, while it was busy."""
    found: dict[str, float] = {}
    until = now - quiet_s
    for rank in ranks:
        node = fleet.nodes.get(rank.node)
        gpu = None if node is None or rank.uuid is None else node.gpus.get(rank.uuid)
        if gpu is None:
            continue
        power = gpu.history.series("power", TRAINED_S, POINTS, until)
        busy = gpu.history.series("util", TRAINED_S, POINTS, until)
        known = power[(busy >= WORKED_PCT) & (power > 0)]
        if len(known) >= POINTS // 10:
            found[gpu.info.uuid] = median(known.tolist())
    return found
