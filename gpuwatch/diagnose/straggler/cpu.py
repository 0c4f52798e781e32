"""Ranks that train on the CPU: the one that computes while the others of its job wait in every step."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from gpuwatch.diagnose.health.peer_comparison import MIN_PEERS
from gpuwatch.fleet.fleet import Fleet

FRESH_S = 15.0
"""Processes are read every 5 s."""
COMPUTES_PCT = 50.0
"""Of a core."""
STARVED_PCT = 10.0
"""On a full machine a rank gets so little while it could always compute: it is ready to run at each look."""
CPU_FACTOR = 2.0
"""So many times the CPU time of any of its peers; noise between equal ranks is far under it."""


@dataclass(frozen=True, slots=True)
class CpuWorker:
    """A rank without a GPU."""

    rank: int
    node: str
    cpu_pct: float
    """Of one core, between the last two readings."""
    age_s: float
    ready: bool = False
    """It ran, or waited for a core, when it was looked at."""

    @property
    def starved(self) -> bool:
        """Whether the worker is ready to compute and the machine gives it too little CPU."""
        return self.ready and STARVED_PCT <= self.cpu_pct < COMPUTES_PCT


@dataclass(frozen=True, slots=True)
class CpuStraggler:
    """One that computes while its peers mostly do not."""

    worker: CpuWorker
    usual_pct: float
    peers: int

    @property
    def text(self) -> str:
        """One sentence without the place. That others wait is a conclusion, and states on what it rests."""
        own, usual = self.worker.cpu_pct, self.usual_pct
        others = f"the job's {self.peers} other ranks"
        who = (
            f"computes {own / usual:.1f}x as much as {others}"
            if usual >= 1
            else f"computes, and not {others}"
        )
        full = "; it waits for a core, its node is full" if self.worker.starved else ""
        return (
            f"{who} ({own:.0f} % of a core, they {usual:.0f} %{full}): every step waits for it, "
            f"which costs the job about {100 * (1 - usual / own):.0f} % if all ranks have the same work"
        )


def cpu_workers(fleet: Fleet, stepping: Container[str], now: float) -> dict[str, list[CpuWorker]]:
    """The ranks of every job that steps and holds no GPU at all, as far as their CPU time is known now."""
    found: dict[str, dict[int, CpuWorker]] = {}
    with_gpus: set[str] = set()
    for node in fleet.nodes.values():
        if node.processes_at is None or now - node.processes_at > FRESH_S:
            continue
        for process in node.processes:
            job = process.job
            if process.rank is None or job is None:
                continue
            if process.gpus:
                with_gpus.add(job)
            elif process.cpu_pct is not None:
                age, ready = now - node.processes_at, process.state == "R"
                worker = CpuWorker(process.rank, node.name, process.cpu_pct, age, ready)
                found.setdefault(job, {}).setdefault(process.rank, worker)
    return {
        job: list(ranks.values()) for job, ranks in found.items() if job in stepping and job not in with_gpus
    }


def cpu_stragglers(ranks: Sequence[CpuWorker]) -> Iterator[CpuStraggler]:
    """The one rank of a job, or none: two that compute alone share the work that the others do not have."""
    if len(ranks) < MIN_PEERS:
        return
    first, second = sorted(ranks, key=lambda each: -each.cpu_pct)[:2]
    computes = first.cpu_pct >= COMPUTES_PCT or first.starved
    if computes and first.cpu_pct >= CPU_FACTOR * second.cpu_pct:
        usual = median(each.cpu_pct for each in ranks if each is not first)
        yield CpuStraggler(first, usual, len(ranks) - 1)
