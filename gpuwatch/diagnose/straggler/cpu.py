"""Finds the CPU-only rank that computes while the others of its job wait in every step."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from statistics import median

from msgspec import Struct

from gpuwatch.diagnose.health.peer_comparison import MIN_PEERS
from gpuwatch.fleet.fleet import Fleet

FRESH_S = 15.0
"""Age in seconds up to which a process reading is current (they come every 5 s)."""
COMPUTES_PCT = 50.0
"""CPU use in percent of a core from which a rank counts as computing."""
STARVED_PCT = 10.0
"""CPU use in percent of a core that a rank gets on an overloaded machine although it is ready to run."""
CPU_FACTOR = 2.0
"""A straggler uses this multiple of the CPU time of any peer; noise between equal ranks is far below."""


class CpuWorker(Struct, frozen=True):
    """A rank without a GPU, its CPU use, and whether its process is ready to run."""

    rank: int
    node: str
    cpu_pct: float
    """Percent of one core between the last two readings."""
    age_s: float
    ready: bool = False
    """True if the process ran or waited for a core when it was sampled."""

    @property
    def starved(self) -> bool:
        """Return True if the process is ready to run but the machine gives it too little CPU."""
        return self.ready and STARVED_PCT <= self.cpu_pct < COMPUTES_PCT


class CpuStraggler(Struct, frozen=True):
    """A rank that computes while its peers mostly do not; `usual_pct` is their median CPU use."""

    worker: CpuWorker
    usual_pct: float
    peers: int

    @property
    def text(self) -> str:
        """Return one sentence without the place.

        It includes the CPU use on which the conclusion that the others wait is based.
        """
        own, usual = self.worker.cpu_pct, self.usual_pct
        others = f"the job's {self.peers} other ranks"
        who = (
            f"computes {own / usual:.1f}x as much as {others}"
            if usual >= 1
            else f"computes, and not {others}"
        )
        full = "; it waits for a core: its node is overloaded" if self.worker.starved else ""
        return (
            f"{who} ({own:.0f} % of a core, they {usual:.0f} %{full}): every step waits for it, "
            f"which costs the job about {100 * (1 - usual / own):.0f} % of its time "
            "if all ranks have the same work"
        )


def cpu_workers(fleet: Fleet, stepping: Container[str], now: float) -> dict[str, list[CpuWorker]]:
    """Return job -> its ranks, for every job in `stepping` of which no rank has a GPU.

    Ranks without a current CPU use are left out.
    """
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
    """Yield the straggler of a job, if there is exactly one.

    If two ranks compute, they have other work than the rest.
    """
    if len(ranks) < MIN_PEERS:
        return
    first, second = sorted(ranks, key=lambda each: -each.cpu_pct)[:2]
    computes = first.cpu_pct >= COMPUTES_PCT or first.starved
    if computes and first.cpu_pct >= CPU_FACTOR * second.cpu_pct:
        usual = median(each.cpu_pct for each in ranks if each is not first)
        yield CpuStraggler(first, usual, len(ranks) - 1)
