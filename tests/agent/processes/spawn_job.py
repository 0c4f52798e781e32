"""Three gloo ranks of torch.multiprocessing.spawn, which number themselves inside the program."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 3


def work(rank: int, folder: str, named: bool) -> None:
    """Join, write a log with or without the rank in its name, and wait."""
    store = dist.FileStore(f"{folder}/store", WORLD)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD)
    name = f"rank{WORLD - 1 - rank}.log" if named else f"{'abc'[rank]}.log"
    with Path(folder, name).open("w", buffering=1) as log:
        print("step 1 loss 2.0", file=log)
        Path(folder, f"ready{rank}").touch()
        time.sleep(600)


if __name__ == "__main__":
    mp.spawn(work, args=(sys.argv[1], sys.argv[2] == "named"), nprocs=WORLD)
