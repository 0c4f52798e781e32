"""A data-parallel loop over gloo, with one rank that comes to grief: killed, hung or exception."""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

STEP_S = 0.05
STEP_OF_GRIEF = 20


def main(how: str, whom: int, timeout_s: float) -> None:
    """Train for ever; at a certain step one rank does what it is told."""
    dist.init_process_group("gloo", timeout=dt.timedelta(seconds=timeout_s))
    rank = dist.get_rank()
    for step in range(100_000):
        if rank == whom and step == STEP_OF_GRIEF:
            come_to_grief(how)
        gradient = torch.ones(1000) * step
        dist.all_reduce(gradient)
        print(f"step {step} loss {1 / (step + 1):.4f}", flush=True)
        time.sleep(STEP_S)


def come_to_grief(how: str) -> None:
    """End, or never come back."""
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "hung":
        time.sleep(3600)
    raise ValueError("sample 4711 has no label")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
