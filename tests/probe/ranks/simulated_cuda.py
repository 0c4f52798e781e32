"""Imported first in a worker: a torch whose GPU is the CPU, whose NCCL is gloo, and whose events are clocks.

Everything of the NCCL path but CUDA and NCCL themselves runs for real. A stream that never ends is simulated
by the environment variable SIMULATED_STUCK: no event comes true.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from gpuwatch.probe.ranks.measures import gpu_checks

TRANSPORT = b"gpu-a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n"
_device, _init = torch.device, dist.init_process_group


class Event:
    """The time at which it was recorded."""

    def __init__(self, **_timing: bool) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = time.perf_counter()

    def query(self) -> bool:
        return "SIMULATED_STUCK" not in os.environ

    def elapsed_time(self, later: Event) -> float:
        return (later.at - self.at) * 1000


def on_cpu(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(*args: Any, device: Any = None, **more: Any) -> Any:
        return make(*args, device="cpu" if device == "cuda" else device, **more)

    return made


def init(backend: str, **more: Any) -> None:
    assert backend == "nccl"
    os.write(1, TRANSPORT)
    _init("gloo", **more)


def device(*_where: object) -> Any:
    return _device("cpu")


patched: Any = torch
patched.device = device
patched.cuda = SimpleNamespace(
    Event=Event,
    is_bf16_supported=lambda: True,
    get_device_name=lambda _: f"Simulated {os.environ['CUDA_VISIBLE_DEVICES']}",
    nccl=SimpleNamespace(version=lambda: (2, 27, 3)),
)
for name in ("zeros", "empty", "randn"):
    setattr(torch, name, on_cpu(getattr(torch, name)))
patched.Tensor.pin_memory = lambda self: self
patched.distributed.init_process_group = init
patched.distributed.get_backend_impl = lambda **_: type("ProcessGroupNCCL2", (), {})()
vars(gpu_checks)["_SIDE"] = 64
