"""Four gloo ranks, one process each, of which rank 2 hangs in its data loader while the others wait.

With HANG_IN=broadcast it calls another collective than the others instead. Like NCCL's process group, each
rank makes a pipe where its job names one, and writes the dump of its flight recorder when a byte comes. Each
has torch's debug socket.
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
from torch.distributed.elastic.control_plane import worker_main

WHOM, STEPS = 2, 3
DUMP = "_dump_fr_trace"


def data_loader_next() -> None:
    """A dead mount, say."""
    time.sleep(3600)


def train_step(tensor: torch.Tensor) -> None:
    """One collective."""
    dist.all_reduce(tensor)


def answer_pipe(rank: int) -> None:
    """Write the dump at every byte; in place, as torch does."""
    pipe = f"{os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}{rank}.pipe"
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDWR)
    while os.read(descriptor, 1):
        path = Path(f"{os.environ['TORCH_FR_DUMP_TEMP_FILE']}{rank}")
        path.write_bytes(getattr(_distributed_c10d, DUMP)())


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
    if "TORCH_NCCL_DEBUG_INFO_PIPE_FILE" in os.environ:
        threading.Thread(target=answer_pipe, args=(rank,), daemon=True).start()
    if rank == WHOM:
        if os.environ.get("HANG_IN") == "broadcast":
            dist.broadcast(tensor, 0)
        data_loader_next()
    train_step(tensor)


if __name__ == "__main__":
    with worker_main():
        main(Path(sys.argv[1]))
