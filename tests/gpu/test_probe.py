"""The probe's worker on a real GPU: fork and then CUDA, NCCL with one rank, and two on two GPUs.

Rates are compared with CUDA events of a plain script on the same GPU, minutes apart at most.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gpuwatch.probe.probe_request import COLLECTIVES
from gpuwatch.probe.protocol import Done, NodeSlot, Prepare, Ready, Step, Stop, Transport
from tests.parts import need_torch
from tests.probe.ranks.driver import Worker

pytestmark = pytest.mark.gpu

ALIKE = 0.9
"""Of the plain script's rate: a GPU that serves others at the same time will not hold it."""
COPIED = 256 << 20
SIDE = 8192
PLAIN = f"""
import json, statistics, torch

def seconds(call, count=10):
    call(), call()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(events, events[1:])) / 1000

kind = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
a, b = (torch.randn({SIDE}, {SIDE}, dtype=kind, device="cuda") for _ in range(2))
c = torch.empty_like(a)
here, there = (torch.zeros({COPIED}, dtype=torch.uint8, device="cuda") for _ in range(2))
host = torch.zeros({COPIED}, dtype=torch.uint8).pin_memory()
print(json.dumps({{
    "matmul": 2 * {SIDE} ** 3 / seconds(lambda: torch.mm(a, b, out=c)),
    "copy": {COPIED} / seconds(lambda: there.copy_(here)),
    "h2d": {COPIED} / seconds(lambda: here.copy_(host, non_blocking=True)),
    "d2h": {COPIED} / seconds(lambda: host.copy_(here, non_blocking=True)),
}}))
"""


def uuids() -> list[str]:
    """Of the GPUs here; skips where there is none, or no torch for it."""
    need_torch()
    if shutil.which("nvidia-smi") is None:
        pytest.skip("no NVIDIA GPU here")
    argv = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    asks = "import torch; print(torch.cuda.is_available() and torch.distributed.is_nccl_available())"
    able = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip() or able.stdout.strip() != "True":
        pytest.skip("no NVIDIA GPU here, or this torch has no CUDA and NCCL")
    return done.stdout.split()


@pytest.fixture(scope="module", params=[1, 2])
def worker(request: pytest.FixtureRequest) -> Iterator[tuple[Worker, int]]:
    """A worker with one rank a GPU, all joined over NCCL."""
    gpus = uuids()[: request.param]
    if len(gpus) < request.param:
        pytest.skip(f"needs {request.param} GPUs")
    with socket.create_server(("127.0.0.1", 0)) as store:
        port = store.getsockname()[1]
        made = Worker(store=store)
    slots = [NodeSlot(rank=i, local=i, gpu=gpus[i], gpu_index=i) for i in range(len(gpus))]
    made.send(
        Prepare(
            backend="nccl",
            world_size=len(gpus),
            slots=slots,
            store_address="127.0.0.1",
            store_port=port,
            store_here=True,
            iface="lo",
            timeout_s=60.0,
        )
    )
    made.wait(lambda received: sum(isinstance(stated, Ready) for stated in received) == len(gpus))
    yield made, len(gpus)
    made.send(Stop())
    assert made.close() == 0


def do(worker: Worker, step: Step, answers: int) -> list[Done]:
    worker.send(step)

    def done() -> list[Done]:
        return [
            stated for stated in list(worker.received) if isinstance(stated, Done) and stated.step == step.id
        ]

    worker.wait(lambda _: len(done()) >= answers)
    return done()


def test_a_forked_rank_starts_cuda_and_joins_over_nccl(worker: tuple[Worker, int]) -> None:
    """torch was imported before the fork, CUDA was not touched: this is what the worker stands on."""
    received, count = worker[0].received, worker[1]
    ready = [stated for stated in received if isinstance(stated, Ready)]
    assert {stated.gpu for stated in ready} == set(uuids()[:count])
    assert all(stated.backend == "nccl" and stated.nccl and stated.device != "cpu" for stated in ready)
    assert all(set(stated.lacks) <= ({"send_recv"} if count == 1 else set()) for stated in ready)


def test_collectives_are_right(worker: tuple[Worker, int]) -> None:
    """Every one that makes sense for so many ranks; two ranks also say which transport they have."""
    made, count = worker
    for i, op in enumerate(COLLECTIVES):
        if count == 1 and op == "send_recv":
            continue
        step = Step(id=100 + i, what="collective", collective=op, bytes=16 << 20, check=True)
        done = do(made, step, count)
        assert [(stated.correct, stated.error) for stated in done] == [(True, None)] * count
    assert count == 1 or any(isinstance(stated, Transport) for stated in made.received)


def test_pairs_are_measured_both_ways(worker: tuple[Worker, int]) -> None:
    """Inside the group of all."""
    made, count = worker
    if count == 1:
        pytest.skip("needs 2 GPUs")
    for i, pair in enumerate(((0, 1), (1, 0))):
        step = Step(id=200 + i, what="bandwidth", pairs=[pair], bytes=64 << 20, check=True)
        done = do(made, step, 2)
        assert [(stated.correct, stated.error) for stated in done] == [(True, None)] * 2


def test_rates_are_those_of_a_plain_script(worker: tuple[Worker, int]) -> None:
    """Multiplication, copies on the GPU, to it and from it."""
    made, count = worker
    ours = {}
    for i, what in enumerate(("matmul", "copy", "h2d", "d2h")):
        size = 0 if what == "matmul" else COPIED
        step = Step(id=300 + i, what=what, bytes=size, ranks=[0], warmup=2, iterations=10)  # type: ignore[arg-type]
        (done,) = do(made, step, 1)
        assert done.error is None
        ours[what] = done.value
    plain = subprocess.run(
        [sys.executable, "-c", PLAIN], capture_output=True, text=True, check=True, timeout=300
    )
    theirs = json.loads(plain.stdout)
    ratios = {what: (ours[what] or 0) / theirs[what] for what in theirs}
    print(f"{count} ranks: {ours}, against a plain script: {ratios}")
    assert all(ratio >= ALIKE for ratio in ratios.values()), ratios
