"""Processes of ranks as their nodes list them."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from gpuwatch import wire
from tests.fleet.jobs.two_jobs import WALL, Several, rank

FOUR = {"LOCAL_WORLD_SIZE": "4"}


def running(reported: Several, node: str, *ranks: wire.Process, at: float = 60.0) -> None:
    reported.run(node, *ranks, at=at)
    reported.report(node, wire.Sample(t=WALL + at, seq=5, host=wire.HostSample(t=WALL + at), gpus=[]), at=at)


def member(number: int, world: int = 4, **more: Any) -> wire.Process:
    """Rank 5 is the local rank 1: each node has four."""
    local = more.pop("local_rank", number % 4)
    facts: dict[str, Any] = {"job": "4711", "start": WALL, "variables": FOUR, **more}
    return structs.replace(rank(number, 100 + number, world, **facts), local_rank=local)
