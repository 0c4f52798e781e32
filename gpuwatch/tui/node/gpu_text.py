"""Values of one GPU in words."""

from __future__ import annotations

from gpuwatch.fleet.nodes.metrics import METRICS, power_limit_w
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.fleet.nodes.quantities import MEMORY


def memory_text(used: float | None, total: float | None) -> str:
    """`61.2G/80.0G`, dashes where unknown."""
    return f"{MEMORY.format(used).strip()}/{MEMORY.format(total).strip()}"


def memory_of(gpu: Gpu) -> str:
    """Used and total memory of a GPU."""
    fast = gpu.fast
    total = (fast.memory_total_bytes if fast else None) or gpu.info.memory_total_bytes
    return memory_text(fast.memory_used_bytes if fast else None, total)


def power_text(gpu: Gpu) -> str:
    """`655/700W`, dashes where unknown."""
    power, limit = METRICS["power"].read(gpu, 0.0), power_limit_w(gpu)
    left = "-" if power is None else f"{power:.0f}"
    return f"{left}/{'-' if limit is None else f'{limit:.0f}'}W"


def ranks_on(node: Node, uuid: str) -> list[int]:
    """The ranks whose processes hold this GPU."""
    return sorted(
        {p.rank for p in node.processes if p.rank is not None and any(held.uuid == uuid for held in p.gpus)}
    )
