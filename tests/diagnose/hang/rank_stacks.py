"""Stacks of ranks, as nodes send them."""

from __future__ import annotations

from gpuwatch.diagnose.hang.stacks.groups import RankStack
from gpuwatch.wire import KernelThread, ProcessStack, PythonThread, StackFrame

TORCH = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


MINE = "/home/ann/train.py"


WAITS = (("all_reduce", TORCH, 2700), ("wrapper", TORCH, 83), ("train_step", MINE, 11), ("main", MINE, 40))


LOADS = (("data_loader_next", MINE, 9), ("main", MINE, 39))


def python(rank: int, frames: tuple[tuple[str, str, int], ...], world: int | None = None) -> RankStack:
    thread = PythonThread(name="MainThread", main=True, frames=[StackFrame(*frame) for frame in frames])
    stack = ProcessStack(pid=1000 + rank, cpu_pct=0.0, python=[thread], threads=[kernel_thread("futex")])
    return RankStack(rank, f"gpu-{rank // 8:03}", 1000 + rank, "4711", rank % 8, world, stack)


def kernel_thread(
    call: str | None, state: str = "S", cpu: float = 0.0, wchan: str | None = None
) -> KernelThread:
    return KernelThread(tid=1, name="python", state=state, cpu_pct=cpu, syscall=call, wchan=wchan)
