"""Memory snapshots in the format of torch's `Snapshot` (torch/cuda/memory.py), with known sizes."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MIB = 1 << 20


def frames(*places: tuple[str, int, str]) -> list[dict[str, Any]]:
    return [{"filename": file, "line": line, "name": name} for file, line, name in places]


TORCH_FRAME = ("/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", 125, "forward")
MODEL = frames(("??", 0, "torch::unwind"), TORCH_FRAME, ("/home/u/train.py", 42, "build"))
LOSS = frames(("??", 0, "torch::unwind"), TORCH_FRAME, ("/home/u/loss.py", 7, "loss"))


def block(address: int, mib: int, state: str, stack: list[dict[str, Any]]) -> dict[str, Any]:
    active = state == "active_allocated"
    return {
        "address": address, "size": mib * MIB, "requested_size": mib * MIB - 512 if active else 0,
        "state": state, "frames": stack,
    }  # fmt: skip


def action(kind: str, address: int, mib: int, stack: list[dict[str, Any]]) -> dict[str, Any]:
    return {"action": kind, "addr": address, "size": mib * MIB, "stream": 0, "frames": stack}


def snapshot(extra: Sequence[dict[str, Any]] = (), device: int = 0) -> dict[str, Any]:
    """A segment of 100 MiB: 40 of the model in use, 60 free; another one of 20 MiB is free.

    In the history 50 MiB of a loss were allocated and freed, and 10 were freed that were there before.
    """
    first, second = 0x7F0000000000, 0x7F0010000000
    segment = {
        "device": device,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "frames": [],
    }
    segments = [
        {**segment, "address": first, "total_size": 100 * MIB, "allocated_size": 40 * MIB,
         "blocks": [
             block(first, 40, "active_allocated", MODEL),
             block(first + 40 * MIB, 60, "inactive", []),
         ]},
        {**segment, "address": second, "total_size": 20 * MIB, "allocated_size": 0,
         "blocks": [block(second, 20, "inactive", [])]},
    ]  # fmt: skip
    loss, old = first + 40 * MIB, first + 90 * MIB
    history = [
        action("alloc", first, 40, MODEL),
        action("alloc", loss, 50, LOSS),
        action("free_requested", loss, 50, LOSS),
        action("free_completed", loss, 50, LOSS),
        action("free_completed", old, 10, []),
        *extra,
    ]
    return {"segments": segments, "device_traces": [[]] * device + [history], "allocator_settings": {}}


def write(path: Path, what: object) -> Path:
    path.write_bytes(pickle.dumps(what, protocol=4))
    return path
