"""Dumps of the flight recorder, written as torch writes them."""

from __future__ import annotations

import pickle
from pathlib import Path

from tests.diagnose.dumps import content, steps

WORLD = {"0": range(4)}


def write(folder: Path, rank: int, name: str = "nccl_trace_rank_", last: int = 3) -> Path:
    path = folder / f"{name}{rank}"
    path.write_bytes(pickle.dumps(content(steps(last), WORLD), 2))
    return path
