"""A process states any world size: checks take as long as the known ranks, and no rank is made up."""

from __future__ import annotations

import tracemalloc

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.missing_ranks.missing import MAX_LOCAL_RANKS, missing_ranks
from gpuwatch.diagnose.missing_ranks.unended import UNENDED_S, unended_ranks
from gpuwatch.diagnose.missing_ranks.waiting_watch import waiting_ranks
from gpuwatch.wire.limits import MAX_RANKS
from tests.diagnose.hang.live_ranks import member, running
from tests.fleet.jobs.two_jobs import WALL, Several

LATE_S = UNENDED_S + 60.0
BOUND_BYTES = 4 << 20
"""A set of a million ranks takes 60 MB."""


@pytest.mark.parametrize(
    "stated",
    [
        {"variables": {}, "master": "127.0.0.1:29500", "job": None},
        {"variables": {"LOCAL_WORLD_SIZE": str(MAX_RANKS - 1)}},
        {"variables": {}},
    ],
)
def test_a_rank_that_states_a_million_misses_none(stated: dict[str, object]) -> None:
    reported = Several()
    running(reported, "n1", member(0, MAX_RANKS, state="S", **stated), at=LATE_S)
    tracemalloc.start()
    try:
        assert missing_ranks(reported.fleet, LATE_S) == []
        assert waiting_ranks(reported.fleet, LATE_S) == []
        assert tracemalloc.get_traced_memory()[1] < BOUND_BYTES
    finally:
        tracemalloc.stop()


def test_many_jobs_of_one_node_miss_as_many_ranks_as_a_node_has() -> None:
    reported = Several()
    local = {"LOCAL_WORLD_SIZE": "1000"}
    ranks = [
        structs.replace(member(0, 1000, job=f"j{number}", variables=local), pid=number)
        for number in range(1, 20)
    ]
    running(reported, "n1", *ranks)
    assert len(missing_ranks(reported.fleet, 60.0)) == MAX_LOCAL_RANKS


@pytest.mark.parametrize(("reporting", "stays"), [(0, (3,)), (1, (3,)), (3, ())])
def test_a_rank_that_stays_is_found_by_who_reached_the_end(reporting: int, stays: tuple[int, ...]) -> None:
    """Of a rank that logs no steps those of the others count; rank 3 itself proves nothing about them."""
    reported = Several()
    for rank, step in ((reporting, 100), *(((0, 7), (1, 7), (2, 7)) if reporting == 3 else ())):
        frame = wire.Progress(
            t=WALL + 10, seq=3, at=WALL + 10, file=f"/logs/{rank}.log", offset=1, dialect="x",
            fields={"step": step, "total_steps": 100}, rank=rank, job="4711",
        )  # fmt: skip
        reported.report("n1", frame, at=10.0)
    running(reported, "n1", member(3, state="S"), at=LATE_S)
    assert [rank for each in unended_ranks(reported.fleet, LATE_S) for rank in each.ranks] == list(stays)
