"""Measures one GPU alone: matrix multiplication, copies within its memory, to and from the host."""

from __future__ import annotations

import statistics
from typing import Any, Callable, Dict, Tuple

from gpuwatch.probe.ranks.measures.clocks import CudaClock
from gpuwatch.probe.ranks.shared.orders import StepFields
from gpuwatch.probe.ranks.shared.torch_types import Torch

_SIDE = 8192
_COPIED = 256 << 20
"""Bytes that are copied if the step states no size."""


def measure(torch: Torch, step: StepFields) -> Dict[str, Any]:
    """Return the fields of `protocol.Done` for a matmul (FLOP/s) or a copy (bytes/s) on the current GPU.

    A byte copied within the GPU is read and written: its memory transfers twice that rate.

    Raises:
        RuntimeError, TimeoutError: the work failed, for want of memory or because of the GPU.
    """
    builders: Dict[str, Callable[[Any, int], Tuple[Callable[[], object], float]]] = {
        "matmul": _matmul,
        "copy": _copy,
        "h2d": _h2d,
        "d2h": _d2h,
    }
    call, work = builders[step.what](torch, step.bytes or _COPIED)
    times = CudaClock(torch).times(call, step.warmup, step.iterations, step.timeout_s)
    return {"times_s": times, "value": work / statistics.median(times)}


def _matmul(torch: Torch, _size: int) -> Tuple[Callable[[], object], float]:
    """Return a multiplication of random matrices, and its FLOP; zeros draw less power than training."""
    kind = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    left, right = (torch.randn(_SIDE, _SIDE, dtype=kind, device="cuda") for _ in range(2))
    out = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=out), 2.0 * _SIDE**3


def _copy(torch: Torch, size: int) -> Tuple[Callable[[], object], float]:
    source = torch.zeros(size, dtype=torch.uint8, device="cuda")
    target = torch.zeros_like(source)
    return lambda: target.copy_(source), float(size)


def _h2d(torch: Torch, size: int) -> Tuple[Callable[[], object], float]:
    source = torch.zeros(size, dtype=torch.uint8).pin_memory()
    target = torch.empty(size, dtype=torch.uint8, device="cuda")
    return lambda: target.copy_(source, non_blocking=True), float(size)


def _d2h(torch: Torch, size: int) -> Tuple[Callable[[], object], float]:
    source = torch.zeros(size, dtype=torch.uint8, device="cuda")
    target = torch.empty(size, dtype=torch.uint8).pin_memory()
    return lambda: target.copy_(source, non_blocking=True), float(size)
