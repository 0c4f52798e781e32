"""Formats values of one GPU as text."""

from __future__ import annotations

from gpuwatch.fleet.nodes.last_ranks import ended_ranks, ranks_on
from gpuwatch.fleet.nodes.metrics import METRICS, power_limit_w
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.fleet.nodes.units import MEMORY
from gpuwatch.number_text import age_text


def memory_text(used: float | None, total: float | None) -> str:
    """Return used and total bytes as `61.2G/80.0G`; a dash for an unknown one."""
    return f"{MEMORY.format(used).strip()}/{MEMORY.format(total).strip()}"


def memory_of(gpu: Gpu) -> str:
    """Return a GPU's used and total memory as `61.2G/80.0G`."""
    fast = gpu.fast
    total = (fast.memory_total_bytes if fast else None) or gpu.info.memory_total_bytes
    return memory_text(fast.memory_used_bytes if fast else None, total)


def power_text(gpu: Gpu) -> str:
    """Return a GPU's power and its limit as `655/700W`; a dash for an unknown one."""
    power, limit = METRICS["power"].read(gpu, 0.0), power_limit_w(gpu)
    left = "-" if power is None else f"{power:.0f}"
    return f"{left}/{'-' if limit is None else f'{limit:.0f}'}W"


def rank_text(node: Node, gpu: Gpu, now: float) -> tuple[str, bool]:
    """Return (text, True) for ranks that run on a GPU, such as `85`.

    Else (text, False) for the last ranks, such as `85, seen 12s ago`; "" if none is known.
    """
    if ranks := ranks_on(node, gpu.info.uuid):
        return ",".join(map(str, ranks)), True
    ended = ",".join(map(str, ended_ranks(node, gpu)))
    since = "" if gpu.last_ranks_at is None else f", seen {age_text(max(0.0, now - gpu.last_ranks_at))} ago"
    return f"{ended}{since}" if ended else "", False
