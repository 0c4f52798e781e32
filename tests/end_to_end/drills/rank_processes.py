"""Ranks as plain processes: they log steps until they are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STEPS = """
import os, sys, time
def read_shard():
    time.sleep(3600)
def wait_for_the_others():
    time.sleep(3600)
for step in range(1, 100000):
    line = f"[rank{sys.argv[1]}] step {step}/100000 loss {1 / step + 2:.4f}"
    print(time.strftime("%Y-%m-%d %H:%M:%S"), line, flush=True)
    time.sleep(0.2)
    if os.path.exists(os.environ.get("HANG", "/none")):
        read_shard() if sys.argv[1] == "2" else wait_for_the_others()
    if os.path.exists(os.environ.get("STOP", "/none")):
        raise KeyError("input_ids") if sys.argv[1] == "1" else ConnectionError("Connection closed by peer")
"""
"""After the file STOP is there, rank 1 fails and the others lose it; after HANG, rank 2 hangs elsewhere."""


@contextmanager
def stepping(folder: Path, rank: int, world: int, run: str) -> Iterator[subprocess.Popen[bytes]]:
    """A rank with a log of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "TORCHELASTIC_RUN_ID": run}
    with (folder / f"rank{rank}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", STEPS, str(rank)],
            env={**os.environ, **own},
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
