"""Three workers of multiprocessing without a GPU, of which the second fails; nobody collects it."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import sys
import time
from pathlib import Path


def work(number: int, folder: str) -> None:
    """Write a log of its own with a "library" mapped; worker 1 ends with status 3."""
    with (
        Path(folder, "libtorch.so").open("rb") as library,
        mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ),
        Path(folder, f"worker_{number}.log").open("w") as log,
    ):
        print("step 1 loss 2.0", file=log, flush=True)
        Path(folder, f"ready{number}").touch()
        if number == 1:
            while not Path(folder, "ready").exists():
                time.sleep(0.01)
            os._exit(3)
        time.sleep(600)


if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=work, args=(number, sys.argv[1])) for number in range(3)]
    for worker in workers:
        worker.start()
    while not all(Path(sys.argv[1], f"ready{number}").exists() for number in range(3)):
        time.sleep(0.01)
    Path(sys.argv[1], "ready").touch()
    time.sleep(600)
