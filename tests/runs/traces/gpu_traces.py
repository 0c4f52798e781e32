"""Traces as torch.profiler writes them on a GPU, with known times.

Keys, order and layout are those of Kineto's own files (pytorch/kineto, docs/traces/before_fix_trace.json) and
of the NCCL kernels in issue 131462 of pytorch/pytorch; the times, in microseconds, are made up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BASE_US = 4_841_280_024_000.0
GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_64x3_nn_align8>(Params)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COMPUTE_STREAM, COPY_STREAM, NCCL_STREAM = 7, 13, 20


@dataclass
class GpuTrace:
    """Events of one rank, in the order of the file."""

    rank: int
    world_size: int = 2
    events: list[dict[str, Any]] = field(default_factory=list)
    _number: int = 0

    def launch(self, operator: str, name: str, cpu: float, gpu: float, duration: float, **more: Any) -> None:
        """An operator at `cpu` whose kernel runs `duration` from `gpu` on."""
        self._number += 1
        number, launched = self._number, 10_000 + self._number
        dims = more.pop("dims", [[64, 256], [256, 512]])
        category, stream = more.pop("cat", "kernel"), more.pop("stream", COMPUTE_STREAM)
        self.events += [
            self._event("cpu_op", operator, 100, cpu, 12.0, {"External id": number, "Input Dims": dims}),
            self._event("cuda_runtime", "cudaLaunchKernel", 100, cpu + 4, 3.0, {"correlation": launched}),
            self._event(
                category, name, stream, gpu, duration,
                {"External id": number, "queued": 0, "device": self.rank, "context": 1, "stream": stream,
                 "correlation": launched, "grid": [32, 1, 2], "block": [128, 1, 1], **more}, pid=self.rank,
            ),
        ]  # fmt: skip

    def section(self, name: str, cpu: float, duration: float) -> None:
        """A `record_function` or a step."""
        self.events.append(self._event("user_annotation", name, 100, cpu, duration, {"External id": 900_000}))

    def _event(
        self, cat: str, name: str, tid: int, at: float, duration: float, args: dict[str, Any], pid: int = 4711
    ) -> dict[str, Any]:
        return {
            "ph": "X",
            "cat": cat,
            "name": name,
            "pid": pid,
            "tid": tid,
            "ts": BASE_US + at,
            "dur": duration,
            "args": args,
        }

    def text(self, layout: str = "kineto") -> str:
        """The file: as Kineto lays it out, or on one line with the events first."""
        head = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
            "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": self.world_size},
        }
        if layout == "one line":
            return json.dumps({"traceEvents": self.events, **head})
        if layout == "compact":
            return json.dumps({**head, "traceEvents": self.events}, separators=(",", ":"))
        events = ",\n  ".join(json.dumps(each, indent=4) for each in self.events)
        begin, end = json.dumps(head)[:-1], '"traceName": "/tmp/t.json"\n}'
        return f'{begin},\n  "traceEvents": [\n  {events}\n  ],\n  {end}'

    def write(self, path: Path, layout: str = "kineto") -> Path:
        path.write_text(self.text(layout))
        return path


def training(rank: int, steps: int = 3, slow: float = 1.0, hidden: float = 60.0) -> GpuTrace:
    """Steps of 1 ms, the rest idle: products of 500 us times `slow`, a copy of 40 us, a fill of 10 us.

    An all-reduce of 200 us runs under the last product for `hidden` us.
    """
    trace = GpuTrace(rank)
    for step in range(steps):
        at = step * 1000.0
        trace.section(f"ProfilerStep#{step}", at, 990.0)
        trace.launch("aten::copy_", "Memcpy HtoD (Pinned -> Device)", at, at + 10, 40.0,
                     cat="gpu_memcpy", stream=COPY_STREAM, bytes=4_194_304)  # fmt: skip
        trace.launch("aten::zero_", "Memset (Device)", at + 20, at + 60, 10.0, cat="gpu_memset")
        first, second = 300.0 * slow, 200.0 * slow
        trace.launch("aten::mm", GEMM, at + 40, at + 80, first)
        trace.launch("aten::addmm", GEMM, at + 60, at + 80 + first, second,
                     dims=[[512], [64, 256], [256, 512], [], []])  # fmt: skip
        trace.launch(
            "c10d::allreduce_", ALL_REDUCE, at + 80, at + 80 + first + second - hidden, 200.0,
            stream=NCCL_STREAM,
            **{"Collective name": "allreduce", "In msg nelems": 131_072, "Out msg nelems": 131_072,
               "Group size": 2, "dtype": "BFloat16", "Process Group Name": "0",
               "Process Group Ranks": "[0, 1]"},
        )  # fmt: skip
    return trace
