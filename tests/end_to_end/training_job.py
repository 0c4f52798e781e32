"""A data-parallel training over gloo that comes to one kind of grief, and prints its steps until then.

Each rank leaves the dump of its flight recorder when its folder holds a file named `dump`.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

WHOM, OTHER = 2, 1
STEP_OF_GRIEF = 4
STEP_S = 0.5
UNITS, SLOW_UNITS = 2, 10
"""What a rank computes in a step, and what the slow one does."""


def data_loader_next(story: str, rank: int, step: int) -> torch.Tensor:
    """The next batch; of the stalled rank it never comes, as from a dead mount."""
    if story == "stall" and rank == WHOM and step == STEP_OF_GRIEF:
        time.sleep(3600)
    batch = torch.rand(128, 16) + 0.1
    return -batch if story == "nan" and rank == WHOM and step == STEP_OF_GRIEF else batch


def compute(units: int) -> None:
    """Forward and backward, as far as the processor is concerned."""
    matrix = torch.rand(256, 256)
    for _ in range(20 * units):
        matrix = torch.tanh(matrix @ matrix)


def synchronise(story: str, rank: int, step: int, gradient: torch.Tensor) -> None:
    """All ranks sum their gradients, unless the story has it that one or two do something else."""
    if step == STEP_OF_GRIEF and story == "order" and rank == WHOM:
        dist.broadcast(gradient, 0)
    if step == STEP_OF_GRIEF and story == "deadlock" and rank in (WHOM, OTHER):
        exchange_halves(gradient, WHOM + OTHER - rank)
    dist.all_reduce(gradient)


def exchange_halves(gradient: torch.Tensor, peer: int) -> None:
    """Both sides receive before they send."""
    dist.recv(gradient[:8].clone(), peer)
    dist.send(gradient[8:], peer)


def train(story: str, folder: Path) -> None:
    """Steps without end; the loss is a real logarithm of real numbers, and a negative one makes it NaN."""
    dist.init_process_group("gloo", timeout=dt.timedelta(minutes=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    weights = torch.ones(16, requires_grad=True)
    threading.Thread(target=leave_dump, args=(folder, rank), daemon=True).start()
    for step in range(1, 100_000):
        batch = data_loader_next(story, rank, step)
        compute(SLOW_UNITS if story == "slow" and rank == WHOM else UNITS)
        loss = torch.log(batch @ weights).square().mean()
        (gradient,) = torch.autograd.grad(loss, weights)
        synchronise(story, rank, step, gradient)
        norm = float((gradient / world).norm())
        weights = (weights - 0.001 * gradient / world).detach().requires_grad_()
        print(f"step {step} loss {float(loss.detach()):.4f} grad_norm {norm:.4f}", flush=True)
        wait(story, folder, step)


def wait(story: str, folder: Path, step: int) -> None:
    """A slow job never waits; the NaN spreads to all ranks only when somebody has seen the first one."""
    if story != "slow":
        time.sleep(STEP_S)
    while story == "nan" and step == STEP_OF_GRIEF and not (folder / "seen").exists():
        time.sleep(0.05)


def leave_dump(folder: Path, rank: int) -> None:
    """As torch's own writer does it when a watchdog fires, or somebody writes into its pipe."""
    while not (folder / "dump").exists():
        time.sleep(0.1)
    part, name = folder / f"part_{rank}.log", "_dump_fr_trace"
    with_calls, with_frames = True, False  # to name the frames torch imports its compiler: seconds of a core
    part.write_bytes(getattr(_distributed_c10d, name)(with_calls, with_frames))
    part.rename(folder / f"trace_rank_{rank}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ["RANK"]))
    train(sys.argv[1], Path(sys.argv[2]))
