"""The demo's answers to profile requests: one rank waits for its data, the others for that rank."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import msgspec

from gpuwatch import wire
from gpuwatch.link.demo.hang import GUILTY

MINE = "/home/demo-ada/helios"
TORCH = "/opt/train/lib/python3.12/site-packages/torch"
MAIN = f"thread (1): MainThread;main ({MINE}/pretrain.py:402)"
STEP = f"{MAIN};train_step ({MINE}/pretrain.py:361)"
SHARES = (
    (f"{STEP};forward ({MINE}/model.py:118);_wrapped_call_impl ({TORCH}/nn/modules/module.py:1751)", 30, 30),
    (f"{STEP};backward ({TORCH}/_tensor.py:648)", 33, 33),
    (f"{STEP};all_reduce ({TORCH}/distributed/distributed_c10d.py:2810)", 22, 4),
    (f"{MAIN};next_batch ({MINE}/data.py:77);__next__ ({TORCH}/utils/data/dataloader.py:733)", 5, 23),
    (f"{STEP};step ({TORCH}/optim/adamw.py:243)", 10, 10),
)
"""Stack, percent of a normal rank's time, percent of the slow rank's."""
LOADER = (
    f"thread (2): Thread-1 (_pin_memory_loop);_pin_memory_loop ({TORCH}/utils/data/_utils/pin_memory.py:31)"
)
NO_KINETO = "simulated: it was not started with KINETO_USE_DAEMON=1"
SAMPLE_CPU_S = 0.0004


def reply(
    request: wire.AskProfile | wire.AskKernels, processes: Sequence[wire.Process], t: float
) -> wire.Reply:
    """Return a node's reply to a request for a profile or kernel times; `t`: unix time there."""
    asked = [each for each in processes if each.pid in request.pids]
    data: wire.Profiles | wire.Kernels
    if isinstance(request, wire.AskKernels):
        data = wire.Kernels([wire.ProcessKernels(each.pid, why=NO_KINETO) for each in asked])
    else:
        data = wire.Profiles([_profile(each, request) for each in asked])
    return wire.Reply(t=t, seq=0, id=request.id, data=msgspec.to_builtins(data))


def _profile(process: wire.Process, request: wire.AskProfile) -> wire.ProcessProfile:
    samples = request.seconds * request.rate
    slow = process.rank == GUILTY
    lines = [f"{stack} {samples * (there if slow else here) // 100}" for stack, here, there in SHARES]
    text = "\n".join([*lines, f"{LOADER} {samples}"])
    return wire.ProcessProfile(
        pid=process.pid,
        packed=base64.b64encode(zlib.compress(text.encode())).decode(),
        seconds=request.seconds + 0.2,
        py_spy_cpu_s=round(SAMPLE_CPU_S * samples, 3),
    )
