"""Records where ranks last ran, so that a rank can be found after its process has ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuwatch.fleet.nodes.node import Gpu, Node


@dataclass
class LastRanks:
    """Records at each GPU the ranks that last held it, and at a node without GPUs those that last ran there.

    A rank that moves to another GPU or node is moved there.
    """

    _places: dict[tuple[str | None, int], Gpu | Node] = field(default_factory=dict)

    def take(self, node: Node) -> None:
        """Update the last ranks of a node and its GPUs by its newest list of processes."""
        held: dict[str, set[int]] = {}
        running: dict[tuple[str | None, int], float] = {}
        for process in node.processes:
            if process.rank is None:
                continue
            if not node.gpus:
                running[process.job, process.rank] = node.processes_at or 0.0
                self._move(process.job, process.rank, node)
            for part in process.gpus:
                gpu = node.gpus.get(part.uuid)
                if gpu is not None:
                    held.setdefault(part.uuid, set()).add(process.rank)
                    self._move(process.job, process.rank, gpu)
        for uuid, ranks in held.items():
            gpu = node.gpus[uuid]
            gpu.last_ranks, gpu.last_ranks_at = tuple(sorted(ranks)), node.processes_at
        if running:
            jobs = {job for job, _ in running}
            kept = {place: at for place, at in node.last_ranks.items() if place[0] in jobs}
            node.last_ranks = kept | running

    def _move(self, job: str | None, rank: int, place: Gpu | Node) -> None:
        before = self._places.get((job, rank))
        self._places[job, rank] = place
        if before is None or before is place:
            return
        if isinstance(before, Node):
            before.last_ranks = {key: at for key, at in before.last_ranks.items() if key != (job, rank)}
        elif rank in before.last_ranks:
            before.last_ranks = tuple(each for each in before.last_ranks if each != rank)


def ranks_on(node: Node, uuid: str) -> list[int]:
    """Return the sorted ranks whose processes use the GPU with this UUID."""
    own = (each for each in node.processes if any(part.uuid == uuid for part in each.gpus))
    return sorted({each.rank for each in own if each.rank is not None})


def ended_ranks(node: Node, gpu: Gpu) -> tuple[int, ...]:
    """Return the ranks that last held a GPU, if none holds it now; else ()."""
    return () if not gpu.last_ranks or ranks_on(node, gpu.info.uuid) else gpu.last_ranks


def ended_on_node(node: Node) -> dict[int, float]:
    """Return ended rank -> when it was last listed (our monotonic clock), of a node without GPUs.

    They are ranks of the jobs that ran there last.
    """
    running = {(each.job, each.rank) for each in node.processes}
    return {place[1]: at for place, at in node.last_ranks.items() if place not in running}
