"""The placement of every job's ranks, and the rank of each log writer; kept after the ranks end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import Process

Job: TypeAlias = "str | None"
"""Job id, or rendezvous address; None: processes that name no job."""

EARLIER_S = 10.0
"""A log whose last step is older than the begin of a job on its node by more seconds is not of that job."""
MAX_JOBS = 64
"""Most jobs that are kept; those that ended first are dropped first."""


@dataclass(slots=True)
class PlacedRank:
    """The process and GPU of one rank; a training without ranks has one entry."""

    node: str
    pid: int
    job: Job
    rank: int | None
    local_rank: int | None
    world: int | None
    uuid: str | None
    logs: tuple[str, ...]
    seen_at: float
    alive: bool = True
    inferred: bool = False
    """True if the rank's number is inferred; see `wire.Process`."""
    start: float | None = None
    """When the process began (unix seconds on the node's clock); None: unknown."""


Writer: TypeAlias = tuple[RankProgress, PlacedRank | None]
"""A log writer, and the place of its rank."""


class RankPlacement:
    """All known placements; `refresh` reads only nodes with a new process list."""

    def __init__(self) -> None:
        self.jobs: dict[Job, dict[int | str, PlacedRank]] = {}
        """Job -> rank (or node and pid of a process without one) -> placement."""
        self.version = 0
        """Changes whenever a placement does."""
        self._listed: dict[str, float | None] = {}
        self._files: dict[tuple[str, str], PlacedRank | None] = {}
        """Node and file -> the rank that writes it; None: several do."""
        self._pids: dict[tuple[str, int], PlacedRank] = {}
        self._nodes: dict[str, set[Job]] = {}
        self._gpus: dict[tuple[str, str], list[PlacedRank]] = {}
        """Node and GPU (UUID) -> the living ranks on it."""
        self._begun: dict[tuple[str, Job], float] = {}
        """Node and job -> when the first of its known processes there began (unix seconds, node's clock)."""
        self._living: dict[str, set[tuple[Job, int | str]]] = {}
        """Node -> the keys of `jobs` that its newest list names."""

    def refresh(self, fleet: Fleet) -> bool:
        """Read new process lists; return True if a placement changed."""
        moved = [node for node in fleet.nodes.values() if node.processes_at != self._listed.get(node.name)]
        changed = False
        for node in moved:
            self._listed[node.name] = node.processes_at
            changed |= self._take(node)
        if changed:
            self._forget()
            self._index()
            self.version += 1
        return changed

    def still(self) -> RankPlacement:
        """Return a copy that does not change."""
        frozen = RankPlacement()
        frozen.jobs = {
            job: {key: replace(placed) for key, placed in members.items()}
            for job, members in self.jobs.items()
        }
        frozen.version = self.version
        frozen._index()
        return frozen

    def _take(self, node: Node) -> bool:
        alive: set[tuple[Job, int | str]] = set()
        changed = False
        # a data loader inherits the environment of its rank, holds no GPU and is younger
        for process in sorted(node.processes, key=lambda each: (not each.gpus, each.pid)):
            if process.rank is None and not (process.gpus and process.logs):
                continue
            placed = placed_rank(process, node)
            key: int | str = f"{node.name} {process.pid}" if placed.rank is None else placed.rank
            if (placed.job, key) in alive:
                continue
            alive.add((placed.job, key))
            members = self.jobs.setdefault(placed.job, {})
            before = members.get(key)
            if before is not None:
                before.seen_at = placed.seen_at
            if before != placed:
                members[key], changed = placed, True
        for job, key in self._living.get(node.name, set()) - alive:
            gone = self.jobs.get(job, {}).get(key)
            if gone is not None and gone.alive and gone.node == node.name:
                gone.alive, changed = False, True
        self._living[node.name] = alive
        return changed

    def _forget(self) -> None:
        ended = [
            job for job, members in self.jobs.items() if not any(placed.alive for placed in members.values())
        ]
        ended.sort(key=lambda job: max(placed.seen_at for placed in self.jobs[job].values()))
        for job in ended[: max(0, len(self.jobs) - MAX_JOBS)]:
            del self.jobs[job]

    def _index(self) -> None:
        self._files, self._pids, self._nodes, self._gpus, self._begun = {}, {}, {}, {}, {}
        for job, members in self.jobs.items():
            for placed in members.values():
                self._nodes.setdefault(placed.node, set()).add(job)
                if placed.start is not None:
                    begun = self._begun.get((placed.node, job), placed.start)
                    self._begun[placed.node, job] = min(begun, placed.start)
                self._pids[placed.node, placed.pid] = placed
                if placed.alive and placed.uuid is not None and placed.rank is not None:
                    self._gpus.setdefault((placed.node, placed.uuid), []).append(placed)
                for file in placed.logs:
                    self._files[placed.node, file] = None if (placed.node, file) in self._files else placed

    def on_gpu(self, node: str, uuid: str) -> PlacedRank | None:
        """Return the living rank on a GPU, the lowest of several; None: there is none."""
        return min(self._gpus.get((node, uuid), ()), key=lambda placed: placed.rank or 0, default=None)

    def of(self, writer: RankProgress) -> tuple[Job, PlacedRank | None]:
        """Return the job and placement of a log writer; None: unknown."""
        placed = None
        if writer.rank is None:
            placed = self._pids.get((writer.node, writer.pid)) if writer.pid is not None else None
            placed = placed or self._files.get((writer.node, writer.file))
        if placed is not None and writer.job in (None, placed.job):
            return placed.job, placed
        job = writer.job
        if job is None:
            here = self._nodes.get(writer.node) or self.jobs
            job = next(iter(here)) if len(here) == 1 else None
            if writer.logged_at < self._begun.get((writer.node, job), writer.logged_at) - EARLIER_S:
                job = None  # an ended job's log
        return job, None if writer.rank is None else self.jobs.get(job, {}).get(writer.rank)


def placed_rank(process: Process, node: Node) -> PlacedRank:
    """Return the placement of a process; one with neither a rank nor a job name counts as its own job."""
    job = process.job
    if job is None and process.rank is None:
        job = f"{node.name} pid {process.pid}"
    return PlacedRank(
        node.name,
        process.pid,
        job,
        process.rank,
        process.local_rank,
        process.world_size,
        process.gpus[0].uuid if process.gpus else None,
        tuple(process.logs),
        node.processes_at or 0.0,
        inferred=process.inferred,
        start=process.start,
    )
