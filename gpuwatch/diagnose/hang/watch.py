"""Who is silent for how long: the memory that hang verdicts need, and the alerts that come of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TypeAlias

from msgspec import structs

from gpuwatch.diagnose.alert import Alert, Proof
from gpuwatch.diagnose.hang.signs import RankSigns, jobs_of
from gpuwatch.diagnose.hang.verdict import SilentHang, verdict
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import Thresholds

Usual: TypeAlias = Callable[[Sequence[RankSigns], float], dict[str, float]]
"""(ranks, seconds of silence) -> UUID -> watts while the GPU trained."""

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
"""GPUs that stand still may wait for a checkpoint: that many windows, and twice the longest pause so far."""
LAST_S = 6.0
"""The verdict must stand for so long: one look may fall between two states."""


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

    @property
    def usual_s(self) -> float | None:
        """Median gap between two signs of life; None before there were enough."""
        return median(self.gaps) if len(self.gaps) >= LEAST_GAPS else None


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
        alive = [age for rank in ranks for age in (rank.wrote_s, rank.stepped_s) if age is not None]
        if not alive:
            return False
        at = now - min(alive)
        job = self._jobs.setdefault(name, Job(moved=at, seen=now))
        job.seen = now
        job.trains |= any(rank.stepped_s is not None for rank in ranks)
        if at > job.moved + EVERY_S / 2:
            job.gaps.append(at - job.moved)
            job.longest_s = max(job.longest_s, at - job.moved)
            job.moved = at
            job.usual_w.clear()  # it works: what it draws is asked anew when it falls silent
        quiet_s, usual_s = now - job.moved, job.usual_s
        limit = max(self._thresholds.hang_s, STEPS * (usual_s or 0.0))
        found = None
        if job.trains and quiet_s > limit:
            job.usual_w = job.usual_w or usual(ranks, quiet_s)
            found = verdict(name, ranks, quiet_s, usual_s, job.usual_w)
        if (
            found is not None
            and found.reading == "host"
            and quiet_s <= max(PAUSES * limit, 2 * job.longest_s)
        ):
            found = None
        if found is None:
            job.since = None
            return self._end(name)
        job.since = now if job.since is None else job.since
        return now - job.since >= LAST_S and self._tell(found, wall - quiet_s, wall)

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
            severity="error" if hang.reading == "host" else "critical",
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
        name = f"{CODE}@{job}"
        alert = self.alerts.get(name)
        if alert is None or alert.state != "firing":
            return False
        self.alerts[name] = structs.replace(alert, state="resolved")
        return True


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
