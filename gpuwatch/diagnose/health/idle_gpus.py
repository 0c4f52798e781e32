"""GPUs that a process holds but does not use."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.diagnose.model.condition import Condition, Evidence
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.number_text import gibibytes

IDLE_PCT = 1.0
HELD_BYTES = 1 << 30
"""Least memory in bytes that a process must hold; one that holds less leaves the GPU usable for others."""


def idle_conditions(node: Node, now: float) -> Iterator[Condition]:
    """Yield a condition for each GPU that is idle although a process holds HELD_BYTES or more of it."""
    for process in node.processes:
        for hold in process.gpus:
            gpu = node.gpus.get(hold.uuid)
            fast = None if gpu is None else gpu.fast_of_late(node.interval_s, now)
            if gpu is None or fast is None:
                continue
            used = fast.utilization_pct
            held = hold.memory_bytes or 0
            if used is not None and used <= IDLE_PCT and held >= HELD_BYTES:
                text = f"idle, but pid {process.pid} ({process.name}) holds {gibibytes(held)} of it"
                evidence = Evidence("utilization", used, " %", IDLE_PCT, gpu.age(now))
                yield Condition("idle_held", "info", text, evidence, gpu.info.index)
