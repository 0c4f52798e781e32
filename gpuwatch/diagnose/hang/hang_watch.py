"""Tracks how long each job has been silent, and raises an alert when `hang_threshold` is passed.

Example: a job logs a step every 2 s, then none, and the GPU of rank 7 is idle while the others spin. After
`HOLD_S` of the same signs and `hang_threshold` seconds of silence (here one window, 60 s) the alert
`job.hang` fires for rank 7. If the ranks were asked for their stacks meanwhile, and the answer settles who
is waited for, one window is enough whatever the signs are. A new step ends the alert.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TypeAlias

from msgspec import structs

from gpuwatch.diagnose.hang.answer import HangAnswer, refined
from gpuwatch.diagnose.hang.classifier import IDLE_PCT, SilentHang, computes, verdict
from gpuwatch.diagnose.hang.hang_threshold import (
    MAX_KNOWN_S,
    HangPattern,
    hang_threshold,
    known_pause,
    pattern_of,
    trained,
)
from gpuwatch.diagnose.hang.rank_signs import ENDED, STOPPED_S, RankSigns, jobs_of, some_are_stopped
from gpuwatch.diagnose.hang.stacks.kernel_waits import STOPPED
from gpuwatch.diagnose.hang.step_pace import SILENT_GAPS, Gaps, StepPace
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.check_interval import PeriodicWatch
from gpuwatch.diagnose.model.incident import HangCheck
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import Thresholds

Usual: TypeAlias = Callable[[Sequence[RankSigns], float], dict[str, float]]
"""A function (ranks, seconds of silence) that returns UUID -> watts that the GPU draws in training."""

CODE = "job.hang"
CHECK_EVERY_S = 2.0
GONE_S = 60.0
"""Seconds after which a job whose ranks have all ended is forgotten."""
HOLD_S = 6.0
"""Seconds that the verdict must hold: a single sample may catch a transition."""
ANSWER_S = 12.0
"""Seconds for which a report that names a rank by its GPU or CPU awaits the answer of the ranks."""
HOLD_WITHOUT_PACE_S = 20.0
"""Seconds that the verdict must hold if no usual gap is known (monitoring began during the silence)."""


@dataclass
class JobState:
    """The data about one job: when it last logged something, earlier pauses, and the present silence."""

    moved: float
    """When any rank last wrote a line, or logged a step where steps are overdue (monotonic seconds)."""
    seen: float
    steps: StepPace = field(default_factory=StepPace)
    gaps: Gaps = field(default_factory=Gaps)
    """The gaps between two signs of activity."""
    usual_w: dict[str, float] = field(default_factory=dict)
    trains: bool = False
    """True if the job has reported a step. Other jobs may be servers, which are silent without requests."""
    since: float | None = None
    """Start of the unbroken period in which the signs indicate a hang; None: they do not."""
    asked_at: float | None = None
    """Since when the job's ranks may be queried in the present silence (monotonic seconds)."""
    answer: HangAnswer | None = None
    """The answer of the job's ranks in the present silence; None: there is none."""
    pattern: HangPattern | None = None
    """The signs of the present silence, at the newest check."""
    pauses: dict[HangPattern, float] = field(default_factory=dict)
    """Signs -> longest silence that ended by itself (seconds)."""
    members: dict[int, RankSigns] = field(default_factory=dict)
    """Rank -> its newest signs since the job last moved."""
    limit_s: float = 0.0
    """Seconds of silence after which the signs of the job are judged."""
    is_unreachable: bool = False
    """True while the nodes of the job's ranks are unreachable: whether the job is silent is unknown."""

    def wake(self, at: float) -> None:
        """Record that the job logged something at `at` (monotonic seconds), after a gap.

        Clears the state of the silence.
        """
        gap_s = at - self.moved
        self.gaps.add(gap_s)
        if self.pattern is not None:
            known_s = max(gap_s, self.pauses.get(self.pattern, 0.0))
            self.pauses[self.pattern], self.pattern = min(known_s, MAX_KNOWN_S), None
        self.answer = self.asked_at = None
        self.moved = at
        self.members.clear()
        self.usual_w.clear()  # the job works: its training power is read again at the next silence


def _settles(answer: HangAnswer | None, ranks: Sequence[RankSigns]) -> bool:
    """Return True if the answer settles who is waited for.

    If it does so only because it was repeated, the named ranks must also be idle on GPU and CPU.
    """
    if answer is None or not answer.repeated:
        return answer is not None and answer.settles
    named = [rank for rank in ranks if rank.rank in answer.hang_check.verdict.culprits]
    return answer.settles or all((rank.busy_pct or 0.0) <= IDLE_PCT and not computes(rank) for rank in named)


class HangWatch(PeriodicWatch):
    """Checks every job at intervals; `alerts` (id -> alert) has firing and resolved hangs."""

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(CHECK_EVERY_S)
        self._thresholds = thresholds
        self._jobs: dict[str, JobState] = {}
        self.suspected: set[str] = set()
        """Jobs that may be queried: silent for a window, with signs of a hang, until they move again."""
        self.awaits_answers = False
        """True if suspected jobs are queried by themselves: a report that names a rank awaits the answer."""

    def answer(self, job: str, answer: HangAnswer) -> None:
        """Store the answer of a suspected job's ranks, for the next check; ignored for other jobs."""
        if job in self.suspected:
            self._jobs[job].answer = answer
            self.hurry()

    @property
    def unreported(self) -> frozenset[str]:
        """Return the jobs whose signs indicate a hang, and for which no hang alert fires yet."""
        return frozenset(
            name for name, job in self._jobs.items() if job.since is not None and not self.is_firing(name)
        )

    @property
    def checks(self) -> dict[str | None, HangCheck]:
        """Return job -> what its ranks answered in the present silence."""
        return {name: job.answer.hang_check for name, job in self._jobs.items() if job.answer is not None}

    def is_held(self, job: str, now: float) -> bool:
        """Return True while a decisive answer of a job's ranks waits for `HOLD_S` (`now`: monotonic)."""
        known = self._jobs[job]
        settles = known.answer is not None and known.answer.settles
        return settles and known.since is not None and now < known.since + HOLD_S + CHECK_EVERY_S

    def _check(self, fleet: Fleet, now: float, wall: float) -> bool:
        return self.see(jobs_of(fleet, now, wall), partial(trained, fleet, now), now, wall)

    def see(self, jobs: Mapping[str, Sequence[RankSigns]], usual: Usual, now: float, wall: float) -> bool:
        """Check all jobs, given the signs of their ranks; return True if an alert changed.

        `wall`: unix seconds.
        """
        moved = False
        for name, ranks in jobs.items():
            moved |= self._check_job(name, ranks, usual, now, wall)
        for name in [name for name, job in self._jobs.items() if now - job.seen > GONE_S]:
            del self._jobs[name]
            self.suspected.discard(name)
            moved |= self._end(name)
        return moved

    def _check_job(
        self, name: str, ranks: Sequence[RankSigns], usual: Usual, now: float, wall: float
    ) -> bool:
        stated = [
            (age, rank.reachable)
            for rank in ranks
            for age in (rank.wrote_s, rank.stepped_s)
            if age is not None
        ]
        if not stated:
            return False
        youngest = min(age for age, _ in stated)
        job = self._jobs.setdefault(name, JobState(moved=now - youngest, seen=now))
        job.seen = now
        job.trains |= any(rank.stepped_s is not None for rank in ranks)
        stopped_s = STOPPED_S if some_are_stopped(rank.state for rank in ranks) else None
        window_s = self._thresholds.hang_s if stopped_s is None else stopped_s
        limit = max(min(window_s, self._thresholds.hang_s), SILENT_GAPS * (job.gaps.usual_s or 0.0))
        if min((age for age, reachable in stated if reachable), default=inf) > youngest + limit:
            job.is_unreachable, job.since = True, None
            return False
        if job.is_unreachable and self._firing(name) is None:
            job.moved = job.steps.moved = now  # lines and steps of that time are still on their way
        job.is_unreachable = False
        at = now - youngest
        if stepped := [rank.stepped_s for rank in ranks if rank.stepped_s is not None]:
            job.steps.see(now - min(stepped), CHECK_EVERY_S / 2)
        if job.steps.moved is not None and job.steps.is_overdue(now, stopped_s):
            at = job.moved = min(job.moved, job.steps.moved)
        if at > job.moved + CHECK_EVERY_S / 2:
            job.wake(at)
            self.suspected.discard(name)
        quiet_s, usual_s = now - job.moved, job.gaps.usual_s
        here = {rank.rank: rank for rank in ranks}
        job.members.update(here)
        gone = [rank for number, rank in sorted(job.members.items()) if number not in here]
        found = None
        if job.trains and quiet_s > limit:
            job.usual_w = job.usual_w or usual(ranks, quiet_s)
            found = verdict(name, ranks, quiet_s, usual_s, job.usual_w, gone)
        job.limit_s = limit
        return self._judge(name, job, ranks, found, now, wall)

    def _judge(
        self,
        name: str,
        job: JobState,
        ranks: Sequence[RankSigns],
        found: SilentHang | None,
        now: float,
        wall: float,
    ) -> bool:
        """Raise, update or end the alert of a job; return True if it changed.

        `found`: the verdict on its signs; None: no hang.
        """
        if found is None:
            job.since = None
            return self._end(name)
        job.pattern = pattern_of(found)
        job.since = now if job.since is None else job.since
        limit_s = job.limit_s
        quiet_s, known_s = now - job.moved, known_pause(found, job.pauses)
        stood_s = now - job.since
        if (stood_s >= HOLD_S or not job.gaps.newest) and quiet_s > max(limit_s, known_s):
            self.suspected.add(name)  # a job that was silent when the session began is queried at once
            job.asked_at = now if job.asked_at is None else job.asked_at
        settled = _settles(job.answer, ranks)
        if stood_s < (HOLD_S if settled or job.gaps.usual_s is not None else HOLD_WITHOUT_PACE_S):
            return False
        pauses = job.answer is not None and job.answer.pauses
        if quiet_s <= (
            limit_s
            if settled
            else hang_threshold(found, ranks, limit_s, job.gaps.longest_s, known_s, pauses=pauses)
        ):
            return self._end(name)
        if self._is_awaited(found, job, ranks, now):
            return False
        reported = found if job.answer is None else refined(found, job.answer, ranks)
        return self._report(reported, wall - quiet_s, wall)

    def _is_awaited(self, found: SilentHang, job: JobState, ranks: Sequence[RankSigns], now: float) -> bool:
        """Return True while the answer may still show that the rank to be named saves or evaluates."""
        if not self.awaits_answers or job.answer is not None or not found.suspects:
            return False
        here = {rank.rank for rank in ranks if rank.state not in (*STOPPED, ENDED)}
        if any(rank.rank not in here for rank in found.suspects):
            return False
        return job.asked_at is not None and now < job.asked_at + ANSWER_S

    def is_firing(self, job: str) -> bool:
        """Return True if an alert that the job hangs is firing."""
        return self._firing(job) is not None

    def longest_pause_s(self, job: str) -> float:
        """Return the longest silence of the job that ended by itself, in seconds; 0.0: none known."""
        return self._jobs[job].gaps.longest_s if job in self._jobs else 0.0

    def _firing(self, job: str) -> Alert | None:
        alert = self.alerts.get(f"{CODE}@{job}")
        return alert if alert is not None and alert.state == "firing" else None

    def _report(self, hang: SilentHang, began: float, wall: float) -> bool:
        verdict = hang.verdict
        name = f"{CODE}@{verdict.job}"
        before = self.alerts.get(name)
        text = hang.what if len(hang.suspects) == 1 else verdict.sentence
        fields: dict[str, str | int | float] = {
            "confidence": verdict.confidence,
            "settle": "; ".join(verdict.settle),
        }
        if before is not None and before.state == "firing" and (before.text, before.fields) == (text, fields):
            return False
        suspect = hang.suspects[0] if len(hang.suspects) == 1 else None
        proof = tuple(Proof("value", text, began) for text in verdict.evidence)
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
            job=verdict.job,
            first=began,
            last=wall,
            count=1 if before is None else before.count + (before.state == "resolved"),
            fields=fields,
        )
        self.alerts[name] = alert
        return True

    def _end(self, job: str) -> bool:
        alert = self._firing(job)
        if alert is None:
            return False
        self.alerts[alert.id] = structs.replace(alert, state="resolved")
        return True
