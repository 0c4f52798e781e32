"""Four gloo ranks, of which rank 2 comes to grief; each leaves the dump of its flight recorder.

All leave their dumps at the same moment, as NCCL's watchdogs do: when the first of them times out.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

RANKS, WHOM, GRIEF = 4, 2, 3


def data_loader_next(folder: Path) -> None:
    """Sleep until the others have given up."""
    while not any(folder.glob("trace_rank_*")):
        time.sleep(0.05)


def train_step(tensor: torch.Tensor) -> None:
    """One collective."""
    dist.all_reduce(tensor)


def leave_dump(folder: Path, rank: int) -> None:
    """As torch's own writer does it; the JSON form for odd ranks."""
    dump = getattr(_distributed_c10d, "_dump_fr_trace_json" if rank % 2 else "_dump_fr_trace")
    data = dump()
    path = folder / f"trace_rank_{rank}{'.json' if rank % 2 else ''}"
    part = folder / f"part{rank}.log"
    part.write_bytes(data if isinstance(data, bytes) else data.encode())
    part.rename(path)


def run(rank: int, how: str, folder: Path) -> None:
    """Train; at a certain step rank 2 does something else."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1")
    store = _distributed_c10d.FileStore(str(folder / "store.log"), RANKS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS, timeout=dt.timedelta(seconds=4))
    tensor = torch.ones(16)
    try:
        for step in range(GRIEF + 1):
            if step == GRIEF and rank == WHOM:
                if how == "missing":
                    data_loader_next(folder)
                    break
                if how == "order":
                    dist.broadcast(tensor, 0)
                if how == "shape":
                    tensor = torch.ones(3)
            train_step(tensor)
    except RuntimeError as error:
        print(f"rank {rank}: {error}", flush=True)
    leave_dump(folder, rank)
    os._exit(0)


def main(how: str, folder: Path) -> None:
    """Fork the ranks after one import of torch."""
    children = []
    for rank in range(RANKS):
        child = os.fork()
        if child == 0:
            run(rank, how, folder)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
