"""One of several GPUs in use: the training may have been meant for all of them."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.diagnose.health.idle_gpus import IDLE_PCT
from gpuwatch.diagnose.model.condition import Condition, Evidence
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.hosts.plan import Thresholds

MIN_GPUS = 2
WORKS_PCT = 10.0
VARIABLE = "CUDA_VISIBLE_DEVICES"


def lone_gpu(node: Node, _thresholds: Thresholds, now: float) -> Iterator[Condition]:
    """Yield `info` if one process uses one GPU, its job has no other rank, and the other GPUs are idle.

    It may be intended. A job of several ranks has the others on other nodes.
    """
    holders = [process for process in node.processes if process.gpus]
    if len(node.gpus) < MIN_GPUS or len(holders) != 1 or len(holders[0].gpus) != 1:
        return
    process = holders[0]
    of_job = [each for each in node.processes if each.rank is not None and each.job == process.job]
    if process.rank is not None and (len(of_job) > 1 or (process.world_size or 1) > 1):
        return
    gpu = node.gpus.get(process.gpus[0].uuid)
    if gpu is None or (_used_pct(gpu, node, now) or 0.0) < WORKS_PCT:
        return
    others = [_used_pct(each, node, now) for each in node.gpus.values() if each is not gpu]
    if any(used is None or used > IDLE_PCT for used in others):
        return
    given = process.variables.get(VARIABLE)
    why = f": {VARIABLE}={given}" if given is not None else ""
    text = f"only GPU {gpu.info.index} of {len(node.gpus)} is busy, with process {process.pid} alone{why}"
    yield Condition("lone_gpu", "info", text, Evidence("GPUs that work", 1, "", len(node.gpus)))


def _used_pct(gpu: Gpu, node: Node, now: float) -> float | None:
    fast = gpu.fast_of_late(node.interval_s, now)
    return None if fast is None else fast.utilization_pct
