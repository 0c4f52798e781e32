"""Waits at the end of a run on several nodes for the parts of nodes that end a little later."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuwatch.runs.sessions.folders.parts import read_parts

WAIT_FOR_NODES_S = 5.0
"""Seconds to wait for the parts of other nodes, as long as the library waits for those of ranks."""
POLL_S = 0.1


def final_parts(folder: Path, hostname: str, wait_s: float = WAIT_FOR_NODES_S) -> dict[str, dict[str, Any]]:
    """Return file name -> part, without those that other nodes still write.

    It waits up to `wait_s` seconds for them. The summary does not name a part that is left out, so `gpuwatch
    runs` adds its later state, and counts nothing twice. The ranks of this node have ended, so their parts
    are taken even where a killed rank did not finish its own.
    """
    until = time.monotonic() + wait_s
    while True:
        parts = read_parts(folder, [])
        written = {name for name, part in parts.items() if is_written(part, hostname)}
        if not written or time.monotonic() >= until:
            return {name: part for name, part in parts.items() if name not in written}
        time.sleep(POLL_S)


def is_written(part: Mapping[str, Any], hostname: str) -> bool:
    """Return True if another node has not finished this part, its own or that of one of its ranks."""
    if part.get("final") is True:
        return False
    if isinstance(part.get("node_rank"), int) and not isinstance(part.get("rank"), int):
        return True
    ranks = part.get("ranks")
    nodes = (
        {rank.get("node") for rank in ranks if isinstance(rank, dict)} if isinstance(ranks, list) else set()
    )
    return bool(nodes - {None}) and hostname not in nodes
