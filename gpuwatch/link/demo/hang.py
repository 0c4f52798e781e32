"""The demo's answers to hang queries: ranks train, then wait for the one stuck in the driver."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence

import msgspec

from gpuwatch import wire
from gpuwatch.link.demo.scenario import FALL_AT, GPUS_PER_NODE, LAST_STEP, LOST_GPU

MINE = "/home/demo-ada/helios/pretrain.py"
TORCH = "/opt/train/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py"
MAIN = wire.StackFrame("main", MINE, 402)
COMPUTES = [wire.StackFrame("forward", "/home/demo-ada/helios/model.py", 118), MAIN]
WAITS = [wire.StackFrame("all_reduce", TORCH, 2810), wire.StackFrame("train_step", MINE, 361), MAIN]
GUILTY = LOST_GPU[0] * GPUS_PER_NODE + LOST_GPU[1]
ANSWER_S = 0.5


def reply(
    request: wire.AskStacks | wire.AskRas, processes: Sequence[wire.Process], second: float, t: float
) -> wire.Reply:
    """Return a node's reply to a request for stacks or RAS reports.

    `second`: of the scenario; `t`: unix time there.
    """
    if isinstance(request, wire.AskStacks):
        reported = [_stack(each, second) for each in processes if each.pid in request.pids]
        data: wire.Stacks | wire.RasAnswers = wire.Stacks(processes=reported, seconds=ANSWER_S)
    else:
        world = next((each.world_size for each in processes if each.world_size), 0)
        data = wire.RasAnswers(answers=[_ras(request, world, second)] if world else [])
    return wire.Reply(t=t, seq=0, id=request.id, data=msgspec.to_builtins(data))


def _stack(process: wire.Process, second: float) -> wire.ProcessStack:
    if process.state == "D":
        thread = wire.KernelThread(
            tid=process.pid, name="python3", state="D", cpu_pct=0.0, wchan="os_acquire_mutex"
        )
        return wire.ProcessStack(
            pid=process.pid, cpu_pct=0.0, threads=[thread], threads_total=41, why="py-spy took more than 4 s"
        )
    thread = wire.KernelThread(tid=process.pid, name="python3", state="R", cpu_pct=99.0, syscall="running")
    frames = WAITS if second >= FALL_AT else COMPUTES
    python = [wire.PythonThread(name="MainThread", main=True, active=True, frames=frames)]
    return wire.ProcessStack(
        pid=process.pid, cpu_pct=104.0, threads=[thread], threads_total=41, python=python
    )


def _ras(request: wire.AskRas, world: int, second: float) -> wire.RasAnswer:
    ranks = [
        {
            "rank": rank,
            "host": "10.0.{}.{}".format(*divmod(rank // GPUS_PER_NODE + 1, 256)),
            "cuda_dev": rank % GPUS_PER_NODE,
            "status": {"init_state": 0, "async_error": 0},
            "collective_counts": {"AllReduce": LAST_STEP + (second >= FALL_AT and rank != GUILTY)},
        }
        for rank in range(world)
    ]
    stated = {
        "nccl_version": "2.28.9-demo",
        "communicators": [{"hash": "0xd3e0", "size": world, "ranks": ranks}],
    }
    packed = base64.b64encode(zlib.compress(json.dumps(stated).encode())).decode()
    return wire.RasAnswer(
        address="localhost:28028", packed=packed, format="json", protocol="2", pids=request.pids
    )
