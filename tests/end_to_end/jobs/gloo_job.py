"""A data-parallel loop over gloo, with one rank that comes to grief in one of several ways."""

from __future__ import annotations

import ctypes
import datetime as dt
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

STEP_S = 0.05
STEP_OF_GRIEF = int(os.environ.get("STEP_OF_GRIEF", "20"))


def main(how: str, whom: int, timeout_s: float) -> None:
    """Train for ever; at a certain step one rank fails as configured."""
    dist.init_process_group("gloo", timeout=dt.timedelta(seconds=timeout_s))
    rank = dist.get_rank()
    first_life = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    last = 100_000 if first_life else 2 * STEP_OF_GRIEF
    for step in range(last):
        gradient = torch.ones(1000) * step
        if first_life and step == STEP_OF_GRIEF and (rank == whom or how == "all"):
            come_to_grief(how, gradient)
        dist.all_reduce(gradient)
        print(f"step {step} loss {1 / (step + 1):.4f}", flush=True)
        time.sleep(STEP_S)


def come_to_grief(how: str, gradient: torch.Tensor) -> None:
    """End, never come back, or do something else than the others."""
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "crashed":
        ctypes.string_at(0)
    elif how == "hung":
        time.sleep(3600)
    elif how == "left":
        sys.exit(0)
    elif how == "mismatch":
        dist.broadcast(gradient, 0)
        return
    try:
        print({"sample": 4711}["label"])
    except KeyError as missing:
        raise ValueError("sample 4711 has no label\nsee the list of samples") from missing


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
