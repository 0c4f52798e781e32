"""Turns signs that last into alerts, one per kind and job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import TypeVar

from msgspec import structs

from gpuwatch.diagnose.alerts.hysteresis import SymptomWatch
from gpuwatch.diagnose.model.alert import OF_STEPS, Alert, Proof
from gpuwatch.diagnose.model.check_interval import CheckInterval
from gpuwatch.diagnose.model.failure_classes import NAN_LOSSES
from gpuwatch.diagnose.training.first_nan import first_nans
from gpuwatch.diagnose.training.numerics import numerics
from gpuwatch.diagnose.training.symptom import Sign
from gpuwatch.diagnose.training.throughput import PAUSE_FACTOR, RECENT_STEPS, pace
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.fleet.logs.session_logs import joined_sessions
from gpuwatch.hosts.plan import Thresholds

T = TypeVar("T")

EVERY_S = 2.0
PEERS_EVERY_S = 10.0
"""Seconds between two looks at the losses of the ranks that did not log the newest step."""
STEPPED_S = 600.0
"""Seconds without a step after which a run has ended or hangs, and its metrics are stale."""
MAX_JOBS = 64
"""Most jobs that step on one node at a time and are judged; eight GPUs have at most 56 MIG instances."""
MAX_PEERS = 64
"""Most ranks whose losses are compared."""


class TrainingWatch(SymptomWatch):
    """Checks the metrics of every job that stepped recently, as its newest writer logs them."""

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(EVERY_S, thresholds.clear_s)
        self._slow_step_s = thresholds.slow_step_s
        self._peers = CheckInterval(PEERS_EVERY_S)

    def hurry(self) -> None:
        """Make the next `go` check all jobs, also the losses of ranks that did not log the newest step."""
        super().hurry()
        self._peers.hurry()

    def _check_fleet(self, fleet: Fleet, now: float, wall: float) -> bool:
        moved = False
        writers, with_peers = lately(fleet, now), self._peers.is_due(now)
        for job, writer in of_possible_jobs(speakers(fleet, now), lambda writer: writer.node).items():
            signs = [
                (writer, sign)
                for sign in (*numerics(writer), *pace(writer, busy(fleet, job), self._slow_step_s))
            ]
            if with_peers and not any(sign.of_curve for _, sign in signs):
                signs += _of_a_peer(writer, writers)
            for by, sign in signs:
                # else the rank only logs for the job
                of_one = sign.of_curve and _is_alone(by, sign.code, writers)
                alert = _alert(job, by, sign, now, wall, of_one=of_one)
                moved |= self._see(alert, sign, by, now, wall)
        nans = of_possible_jobs(first_nans(lately(fleet, now)), lambda nan: nan.writer.node)
        for job, nan in nans.items():
            alert = _alert(job, nan.writer, nan.sign, now, wall, of_one=nan.alone)
            lasted_s = now - nan.at if isfinite(nan.at) else None
            alert = structs.replace(alert, timed=lasted_s is not None)
            moved |= self._see(alert, nan.sign, nan.writer, now, wall, lasted_s)
        return moved

    def _see(
        self,
        alert: Alert,
        sign: Sign,
        writer: RankProgress,
        now: float,
        wall: float,
        lasted_s: float | None = None,
    ) -> bool:
        since = now - self._lasting.seen(alert.id, now)
        before = self._lasting.firing(alert.id)
        if sign.hold_s and stepping_s(writer, since) < sign.hold_s:
            return False
        if before is not None and not (_better(sign, before) or _is_of_others(sign, alert, before)):
            return False
        self._lasting.report(alert, now, wall, lasted_s)
        return True


def _of_a_peer(speaker: RankProgress, writers: Iterable[RankProgress]) -> Iterator[tuple[RankProgress, Sign]]:
    """Yield the signs of the losses of a job's other ranks, each with its writer."""
    for each in _peers(speaker, writers)[:MAX_PEERS]:
        yield from ((each, sign) for sign in numerics(each) if sign.of_curve)


def _alert(
    job: str | None, writer: RankProgress, sign: Sign, now: float, wall: float, *, of_one: bool
) -> Alert:
    at = wall - (now - (writer.stepped_at or now))
    proof = Proof("line", sign.text, at, node=writer.node, file=writer.file, offset=writer.offset)
    return Alert(
        id=f"{sign.code}@{job or writer.node}",
        code=sign.code,
        severity=sign.severity,
        title=sign.title,
        text=sign.text,
        proof=(proof,),
        role=sign.role,
        node=writer.node if of_one or job is None else None,
        rank=writer.rank if of_one else None,
        job=job,
        fields=_fields(sign),
    )


def _fields(sign: Sign) -> dict[str, str | int | float]:
    found: dict[str, str | int | float] = {} if sign.step is None else {"step": sign.step}
    return found if sign.code in NAN_LOSSES else {**found, OF_STEPS: 1}


def _is_alone(writer: RankProgress, code: str, writers: Iterable[RankProgress]) -> bool:
    """Return True if other ranks of the job log losses of their own, and none of them has this sign."""
    peers = _peers(writer, writers)
    return (
        writer.rank is not None
        and bool(peers)
        and not any(sign.code == code for each in peers[:MAX_PEERS] for sign in numerics(each))
    )


def _peers(writer: RankProgress, writers: Iterable[RankProgress]) -> list[RankProgress]:
    """Return the other ranks of the writer's job that log losses of their own."""
    return [
        each
        for each in writers
        if each.job == writer.job
        and each.rank not in (None, writer.rank)
        and any(step.loss is not None for step in each.steps)
    ]


def _better(sign: Sign, before: Alert) -> bool:
    """Return True if the sign has an earlier step than its alert, or the same step and another text.

    Logs are read at different speeds, so an earlier step may arrive later; with more ranks the text differs.
    """
    known = before.fields.get("step")
    if sign.step is None or not isinstance(known, int):
        return False
    return sign.step < known or (sign.step == known and sign.text != before.text)


def _is_of_others(sign: Sign, alert: Alert, before: Alert) -> bool:
    """Return True if a curve is no longer that of the alert's rank alone, or by now is that of one rank.

    The logs of other ranks may arrive later, or show the same rise some steps later.
    """
    return sign.of_curve and (alert.node, alert.rank) != (before.node, before.rank)


def stepping_s(writer: RankProgress, since: float) -> float:
    """Return the seconds for which a writer stepped since `since` (monotonic).

    A longer gap counts as PAUSE_FACTOR usual ones.
    """
    gaps = [(later - sooner, sooner) for sooner, later in pairwise(step.at for step in writer.steps)]
    pause = PAUSE_FACTOR * median(gap for gap, _ in gaps[-RECENT_STEPS:]) if gaps else 0.0
    return sum(min(gap, pause) for gap, sooner in gaps if sooner >= since)


def speakers(fleet: Fleet, now: float) -> dict[str | None, RankProgress]:
    """Return job -> the writer of its newest step, if that was logged within STEPPED_S seconds."""
    found: dict[str | None, RankProgress] = {}
    for writer in lately(fleet, now):
        known = found.get(writer.job)
        if known is None or (known.stepped_at or 0.0) < (writer.stepped_at or 0.0):
            found[writer.job] = writer
    return found


def of_possible_jobs(by_job: Mapping[str | None, T], node_of: Callable[[T], str]) -> dict[str | None, T]:
    """Return the entries of `by_job` without those after the first `MAX_JOBS` of a node.

    A hostile node may name any number of failing jobs.
    """
    counts: Counter[str] = Counter()
    found = {}
    for job, each in by_job.items():
        counts[node_of(each)] += 1
        if counts[node_of(each)] <= MAX_JOBS:
            found[job] = each
    return found


def lately(fleet: Fleet, now: float) -> list[RankProgress]:
    """Return the writers that logged a step within STEPPED_S; the logs of one session count as one writer."""
    writers = joined_sessions(fleet.progress.writers.values())
    return [each for each in writers if each.stepped_at is not None and now - each.stepped_at <= STEPPED_S]


def busy(fleet: Fleet, job: str | None) -> Sequence[float]:
    """Return the utilization of each GPU that the job's ranks hold, in percent; `job` None: of all ranks."""
    return list(_busy(fleet, job))


def _busy(fleet: Fleet, job: str | None) -> Iterator[float]:
    for node in fleet.nodes.values():
        for process in node.processes:
            if process.rank is None or job not in (None, process.job):
                continue
            for hold in process.gpus:
                gpu = node.gpus.get(hold.uuid)
                if gpu is not None and gpu.fast is not None and gpu.fast.utilization_pct is not None:
                    yield gpu.fast.utilization_pct
