"""Finds busy GPUs without a visible process: it runs in another container, or /proc hides it."""

from __future__ import annotations

from gpuwatch.agent.base.notices import PROCESSES_HIDDEN
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Gpu

IDLE_PCT = 5.0
"""Utilization in percent above which a GPU counts as busy."""


def busy_unseen(fleet: Fleet) -> dict[str, list[int]]:
    """Return node -> indexes of busy GPUs, for nodes where no visible process uses a GPU or has a rank."""
    found = {}
    for node in fleet.nodes.values():
        if any(process.rank is not None or process.gpus for process in node.processes):
            continue
        busy = [gpu.info.index for gpu in node.gpu_list() if _is_busy(gpu)]
        if busy:
            found[node.name] = busy
    return found


def processes_hidden(fleet: Fleet) -> list[str]:
    """Return the nodes where the agent's user cannot see other users' processes."""
    return [
        node.name
        for node in fleet.nodes.values()
        if node.hello is not None and any(each.code == PROCESSES_HIDDEN for each in node.hello.notices)
    ]


def _is_busy(gpu: Gpu) -> bool:
    return gpu.fast is not None and (gpu.fast.utilization_pct or 0.0) > IDLE_PCT
