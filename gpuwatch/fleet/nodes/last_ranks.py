"""Records which ranks last held a GPU, so that a rank can be found after its process has ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuwatch.fleet.nodes.node import Gpu, Node


@dataclass
class LastRanks:
    """Records at each GPU the ranks that last held it; a rank that moves to another GPU is moved there."""

    _places: dict[tuple[str | None, int], Gpu] = field(default_factory=dict)

    def take(self, node: Node) -> None:
        """Update the last ranks of a node's GPUs by its newest list of processes."""
        held: dict[str, set[int]] = {}
        for process in node.processes:
            if process.rank is None:
                continue
            for part in process.gpus:
                gpu = node.gpus.get(part.uuid)
                if gpu is not None:
                    held.setdefault(part.uuid, set()).add(process.rank)
                    self._move(process.job, process.rank, gpu)
        for uuid, ranks in held.items():
            gpu = node.gpus[uuid]
            gpu.last_ranks, gpu.last_ranks_at = tuple(sorted(ranks)), node.processes_at

    def _move(self, job: str | None, rank: int, gpu: Gpu) -> None:
        before = self._places.get((job, rank))
        self._places[job, rank] = gpu
        if before is not None and before is not gpu and rank in before.last_ranks:
            before.last_ranks = tuple(each for each in before.last_ranks if each != rank)


def ranks_on(node: Node, uuid: str) -> list[int]:
    """Return the sorted ranks whose processes use the GPU with this UUID."""
    own = (each for each in node.processes if any(part.uuid == uuid for part in each.gpus))
    return sorted({each.rank for each in own if each.rank is not None})


def ended_ranks(node: Node, gpu: Gpu) -> tuple[int, ...]:
    """Return the ranks that last held a GPU, if none holds it now; else ()."""
    return () if not gpu.last_ranks or ranks_on(node, gpu.info.uuid) else gpu.last_ranks
