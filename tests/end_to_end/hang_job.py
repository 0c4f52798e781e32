"""Four gloo ranks, one process each, of which rank 2 hangs in its data loader while the others wait."""

from __future__ import annotations

import datetime as dt
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

WHOM, STEPS = 2, 3


def data_loader_next() -> None:
    """A dead mount, say."""
    time.sleep(3600)


def train_step(tensor: torch.Tensor) -> None:
    """One collective."""
    dist.all_reduce(tensor)


def main(folder: Path) -> None:
    """Train until rank 2 hangs; each rank leaves a file when it is about to wait."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = _distributed_c10d.FileStore(str(folder / "store"), world)
    wait = dt.timedelta(seconds=600)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=wait)
    tensor = torch.ones(16)
    for _ in range(STEPS):
        train_step(tensor)
    (folder / f"ready{rank}").touch()
    if rank == WHOM:
        data_loader_next()
    train_step(tensor)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
