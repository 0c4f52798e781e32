"""Flight recorder dumps as torch writes them, built by hand: what NCCL would leave, without a GPU."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from gpuwatch.runs.flight.dumps import read_dump
from gpuwatch.runs.flight.rank_dump import RankDump

Entry = dict[str, Any]
BEGAN_S = 1_790_000_000.0
FRAMES = [
    {
        "name": "all_reduce",
        "filename": "/opt/venv/lib/python3.11/site-packages/torch/distributed/d.py",
        "line": 9,
    },
    {"name": "train_step", "filename": "/home/ann/train.py", "line": 42},
    {"name": "<module>", "filename": "/home/ann/train.py", "line": 80},
]


def entry(
    seq: int,
    op: str = "all_reduce",
    *,
    state: str = "completed",
    group: str = "0",
    backend: str = "nccl",
    size: int = 1024,
    dtype: str = "Float",
    at_s: float | None = None,
    p2p: int | None = None,
    **more: Any,
) -> Entry:
    """One entry; `p2p` is the number of a send or receive."""
    return {
        "record_id": seq - 1,
        "pg_id": int(group) if group.isdecimal() else 0,
        "process_group": (group, "default_pg" if group == "0" else "tp"),
        "collective_seq_id": seq,
        "p2p_seq_id": p2p or 0,
        "op_id": seq,
        "profiling_name": f"{backend}:{op}",
        "time_created_ns": int((BEGAN_S + seq if at_s is None else at_s) * 1e9),
        "input_sizes": [[size]],
        "output_sizes": [[size]],
        "input_dtypes": [dtype],
        "output_dtypes": [dtype],
        "state": state,
        "retired": state == "completed",
        "timeout_ms": 600_000,
        "is_p2p": p2p is not None,
        "frames": FRAMES,
        **more,
    }


def steps(last: int, state: str = "started", **more: Any) -> list[Entry]:
    """Collectives 1 to `last`, of which the last one is in that state."""
    return [entry(seq, state="completed" if seq < last else state, **more) for seq in range(1, last + 1)]


def content(
    entries: Sequence[Entry], groups: Mapping[str, Sequence[int]], *, version: str = "2.10"
) -> dict[str, Any]:
    """A dump as torch's dict."""
    config = {
        name: {"name": name, "desc": "default_pg" if name == "0" else "tp", "ranks": str(list(ranks))}
        for name, ranks in groups.items()
    }
    last = max((each["collective_seq_id"] for each in entries), default=0)
    status = {"0": {"last_enqueued_collective": last, "last_started_collective": last}}
    return {"version": version, "pg_config": config, "pg_status": status, "entries": list(entries)}


def dump(rank: int, entries: Sequence[Entry], groups: Mapping[str, Sequence[int]]) -> RankDump:
    """A dump, through the loader."""
    return read_dump(pickle.dumps(content(entries, groups), 2), rank, f"nccl_trace_rank_{rank}")


def job(
    world: int, of: Mapping[int, Sequence[Entry]], usual: Sequence[Entry], gone: Iterable[int] = ()
) -> list[RankDump]:
    """All ranks in one group, those in `of` with entries of their own, those in `gone` without a dump."""
    groups = {"0": range(world)}
    alike = read_dump(pickle.dumps(content(usual, groups), 2), 0, "shared")
    return [
        dump(rank, of[rank], groups) if rank in of else replace(alike, rank=rank)
        for rank in range(world)
        if rank not in set(gone)
    ]
