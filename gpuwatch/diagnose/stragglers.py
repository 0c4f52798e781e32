"""One rank that is slower than all others of its job: which, why, and what that costs the job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from gpuwatch.diagnose.alert import Alert, Proof
from gpuwatch.diagnose.cpu_stragglers import CpuStraggler, cpu_stragglers, cpu_workers
from gpuwatch.diagnose.lasting import Lasting
from gpuwatch.diagnose.peers import ENOUGH, EQUAL_PCT, WORKING_PCT
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.node import STALE_TICKS, Gpu, Node
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.wire import GpuFast

CODE = "slower_than_peers"
"""The same as against the neighbours on one node: this one knows the job, and takes its place."""
EVERY_S = 5.0
SKIPPED_S = 2.5 * EVERY_S
"""Seen again after longer than this, it did not last: it is seen for the first time."""
REASONS = {
    "hw_thermal": "its own thermal protection",
    "sw_thermal": "heat",
    "power_brake": "the power brake",
    "power_cap": "its power limit",
    "hw_slowdown": "a hardware slowdown",
}
"""Clock-event reason -> what slows it down, the gravest first."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A rank whose GPU works now."""

    rank: int
    job: str
    node: Node
    gpu: Gpu
    fast: GpuFast
    clock_mhz: float
    busy_pct: float


@dataclass(frozen=True, slots=True)
class Straggler:
    """One that is slower than its peers at this moment."""

    worker: Worker
    usual_mhz: float
    peers: int

    @property
    def ratio(self) -> float:
        """Of its clock to the median of its peers."""
        return self.worker.clock_mhz / self.usual_mhz


def workers(fleet: Fleet, now: float) -> dict[tuple[str, str], list[Worker]]:
    """The working ranks by job and GPU model: only those can be compared."""
    found: dict[tuple[str, str], list[Worker]] = {}
    for node in fleet.nodes.values():
        fresh = STALE_TICKS * node.interval_s
        for process in node.processes:
            job = process.job
            if process.rank is None or job is None:
                continue
            for hold in process.gpus:
                gpu = node.gpus.get(hold.uuid)
                if gpu is None or gpu.fast is None or gpu.fast_at is None or now - gpu.fast_at > fresh:
                    continue
                clock, busy = gpu.fast.sm_clock_mhz, gpu.fast.utilization_pct
                if gpu.state == "ok" and clock and busy is not None and busy >= WORKING_PCT:
                    worker = Worker(process.rank, job, node, gpu, gpu.fast, clock, busy)
                    found.setdefault((job, gpu.info.name), []).append(worker)
    return found


def stragglers(group: Sequence[Worker], thresholds: Thresholds) -> Iterator[Straggler]:
    """Those whose clock is under a share of the median at about equal utilisation."""
    if len(group) < ENOUGH:
        return
    usual, busy = median(each.clock_mhz for each in group), median(each.busy_pct for each in group)
    for each in group:
        slow = each.clock_mhz < usual * thresholds.peer_clock_pct / 100.0
        if slow and abs(each.busy_pct - busy) <= EQUAL_PCT:
            yield Straggler(each, usual, len(group) - 1)


def reason(fast: GpuFast) -> str:
    """What holds the clock down, as the GPU says; empty when it does not."""
    shares = fast.throttle_pct or {}
    told = [(name, shares[name]) for name in REASONS if shares.get(name, 0.0) > 1.0]
    if told:
        name, share = told[0]
        return f"{REASONS[name]} ({share:.0f} % of the time)"
    now = [REASONS[name] for name in REASONS if name in (fast.throttle or ())]
    return now[0] if now else ""


def told(straggler: Straggler) -> str:
    """One sentence without the place."""
    worker, ratio = straggler.worker, straggler.ratio
    rack = worker.node.spec.labels.get("rack")
    why = reason(worker.fast)
    heat = "" if worker.fast.temperature_c is None else f", {worker.fast.temperature_c:.0f} C"
    return (
        f"{ratio:.2f}x the clock of the job's {straggler.peers} other ranks "
        f"({worker.clock_mhz:.0f} of {straggler.usual_mhz:.0f} MHz{heat})"
        + (f", held down by {why}" if why else "")
        + (f", rack {rack}" if rack else "")
        + f": every step waits for it, which costs the job about {100 * (1 - ratio):.0f} %"
    )


class StragglerWatch:
    """A straggler is told when it lasted, and until it was gone for a while."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._at = float("-inf")
        self._lasting = Lasting(thresholds.clear_s, SKIPPED_S)

    @property
    def alerts(self) -> dict[str, Alert]:
        """By id: those that fire, and those that did."""
        return self._lasting.alerts

    def go(self, fleet: Fleet, now: float, wall: float) -> bool:
        """Look, if it is time; True when an alert fired or ended."""
        if now - self._at < EVERY_S:
            return False
        self._at = now
        found = [_slow_gpu(each, now, wall) for each in self._slow_gpus(fleet, now)]
        for job, ranks in cpu_workers(fleet, now).items():
            found += [_slow_cpu(job, one, wall) for one in cpu_stragglers(ranks)]
        moved = False
        for alert in found:
            lasted_s = self._lasting.seen(alert.id, now)
            if lasted_s >= self._thresholds.hold_s and not self._lasting.firing(alert.id):
                self._lasting.tell(alert, now, wall)
                moved = True
        return self._lasting.clear(now, wall) or moved

    def _slow_gpus(self, fleet: Fleet, now: float) -> Iterator[Straggler]:
        for group in workers(fleet, now).values():
            yield from stragglers(group, self._thresholds)


def _slow_gpu(each: Straggler, now: float, wall: float) -> Alert:
    worker = each.worker
    return Alert(
        id=f"{CODE}@{worker.node.name}:{worker.gpu.info.index}",
        code=CODE,
        severity="warning",
        title="Straggler",
        text=told(each),
        proof=(Proof("value", told(each), wall - (worker.gpu.age(now) or 0.0), node=worker.node.name),),
        role="hint",
        node=worker.node.name,
        gpu=worker.gpu.info.index,
        rank=worker.rank,
        rank_from="process",
        job=worker.job,
    )


def _slow_cpu(job: str, each: CpuStraggler, wall: float) -> Alert:
    worker = each.worker
    return Alert(
        id=f"{CODE}@{job}:{worker.rank}",
        code=CODE,
        severity="warning",
        title="Straggler",
        text=each.text,
        proof=(Proof("value", each.text, wall - worker.age_s, node=worker.node),),
        role="hint",
        node=worker.node,
        rank=worker.rank,
        rank_from="process",
        job=job,
    )
