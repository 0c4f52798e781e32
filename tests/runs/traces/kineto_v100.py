"""A trace that torch.profiler wrote on a Tesla V100 in May 2021: one training step of a small model.

Times, ids and layout are those of tb_plugin/test/gpu_metrics_input.json in pytorch/kineto (301f611b,
BSD 3-Clause): every event of the GPU with the call that launched it, the step, and the operators
named below. Names of kernels are cut where their template arguments begin.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BASE_US = 1_621_401_187_000_000
PROCESS, AUTOGRAD_THREAD = 24_572, 24_610
STEP = (223_358, 13_410)
ELEMENTWISE, REDUCE = "void at::native::vectorized_elementwise_kernel", "void at::native::reduce_kernel"
UNROLLED, COPY = "void at::native::unrolled_elementwise_kernel", "Memcpy HtoD (Pageable -> Device)"
GEMM, GEMM_NN, SGEMM = "void gemmSN_TN_kernel_64addr", "void gemmSN_NN_kernel", "volta_sgemm_128x32_nt"
GPU_EVENTS = (
    (COPY, 224_556, 1, 311, 31, 224_533, 20), (COPY, 224_767, 1, 323, 34, 224_752, 12),
    (GEMM, 225_275, 3, 333, 41, 225_258, 16), (UNROLLED, 225_530, 2, 338, 45, 225_512, 16),
    (ELEMENTWISE, 225_820, 1, 352, 49, 225_803, 15), (GEMM, 226_325, 2, 364, 57, 226_309, 15),
    (UNROLLED, 226_575, 2, 369, 61, 226_558, 15), (ELEMENTWISE, 226_912, 1, 377, 63, 226_895, 16),
    (REDUCE, 227_092, 2, 388, 65, 227_075, 15), (ELEMENTWISE, 227_619, 1, 395, 74, 227_601, 16),
    (ELEMENTWISE, 227_745, 1, 402, 76, 227_729, 14), (ELEMENTWISE, 227_859, 1, 409, 78, 227_844, 13),
    (ELEMENTWISE, 227_973, 1, 416, 80, 227_958, 13), (ELEMENTWISE, 228_279, 1, 429, 84, 228_262, 15),
    (ELEMENTWISE, 228_962, 1, 440, 91, 228_932, 30), (UNROLLED, 229_153, 2, 446, 92, 229_127, 26),
    (REDUCE, 229_711, 4, 460, 94, 229_681, 30), (ELEMENTWISE, 230_162, 1, 467, 98, 230_133, 29),
    (SGEMM, 231_100, 3, 482, 107, 231_073, 27), (GEMM_NN, 231_692, 2, 492, 116, 231_665, 27),
    (ELEMENTWISE, 232_603, 1, 503, 126, 232_583, 19), (ELEMENTWISE, 232_921, 1, 513, 130, 232_901, 19),
    (ELEMENTWISE, 233_342, 1, 526, 133, 233_323, 18), (UNROLLED, 233_770, 2, 535, 144, 233_751, 19),
    (REDUCE, 234_156, 3, 548, 147, 234_135, 19), (ELEMENTWISE, 234_445, 1, 555, 151, 234_425, 19),
    (SGEMM, 235_025, 3, 570, 160, 235_006, 17), (ELEMENTWISE, 235_555, 1, 579, 170, 235_535, 19),
    (ELEMENTWISE, 236_158, 1, 585, 176, 236_138, 18), (ELEMENTWISE, 236_278, 1, 590, 177, 236_261, 15),
    (ELEMENTWISE, 236_390, 1, 595, 178, 236_373, 15), (ELEMENTWISE, 236_501, 1, 600, 179, 236_483, 15),
)  # fmt: skip
"""Name, start and duration in us, correlation, external id; start and duration of the launching call."""
OPERATORS = (
    ("aten::copy_", 31, 224_496, 80), ("aten::copy_", 34, 224_720, 65), ("aten::mm", 41, 225_112, 197),
    ("aten::add_", 45, 225_449, 107), ("aten::clamp_min", 49, 225_721, 105), ("aten::mm", 57, 226_161, 197),
    ("aten::add_", 61, 226_497, 103), ("aten::sum", 65, 226_930, 176), ("aten::add_", 176, 236_091, 82),
    ("aten::add_", 177, 236_221, 70), ("aten::add_", 178, 236_334, 68), ("aten::add_", 179, 236_444, 68),
    ("Optimizer.step#SGD.step", 174, 235_935, 663),
)  # fmt: skip
"""Name, external id, start and duration in us."""


def write(path: Path) -> Path:
    """Write the trace as torch before 1.11 did: other categories, threads as text."""
    events = [_event("Operator", "ProfilerStep#2", PROCESS, *STEP, {"External id": 4})]
    events += [
        _event("Operator", name, PROCESS, at, took, {"External id": number})
        for name, number, at, took in OPERATORS
    ]
    for name, at, took, correlation, number, called, calling in GPU_EVENTS:
        is_copy, backward = name == COPY, 84 < number < 174
        joins = {"correlation": correlation, "external id": number}
        events.append(
            _event(
                "Memcpy" if is_copy else "Kernel",
                name,
                0,
                at,
                took,
                {"device": 0, "stream": 7, **joins},
                "stream 7",
            )
        )
        call, thread = (
            "cudaMemcpyAsync" if is_copy else "cudaLaunchKernel",
            AUTOGRAD_THREAD if backward else PROCESS,
        )
        events.append(_event("Runtime", call, PROCESS, called, calling, {"cbid": 211, **joins}, str(thread)))
    gpus = [{"id": number, "name": "Tesla V100-DGXS-32GB", "major": 7, "minor": 0} for number in range(4)]
    path.write_text(
        json.dumps({"schemaVersion": 1, "computeProperties": gpus, "traceEvents": events}, indent=1)
    )
    return path


def _event(
    category: str,
    name: str,
    process: int,
    at: int,
    took: int,
    args: dict[str, Any],
    thread: str = str(PROCESS),
) -> dict[str, Any]:
    place = {"pid": process, "tid": thread, "ts": BASE_US + at, "dur": took}
    return {"ph": "X", "cat": category, "name": name, **place, "args": args}
