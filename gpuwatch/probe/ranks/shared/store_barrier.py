"""A barrier through the store: ranks meet before they use the fabric, so that an absent one is named.

gloo's `monitored_barrier(wait_all_ranks=True)` names them too, but needs connections between all ranks, also
with NCCL; a connection that timed out in it never works again; and it fails if some pair of nodes cannot
communicate. The store needs none of that, and a late rank can still take part later.
"""

from __future__ import annotations

import json
import time
from typing import List

from gpuwatch.probe.ranks.shared import words
from gpuwatch.probe.ranks.shared.store_client import StoreClient, StoreTamperedError

_COUNTED_BEFORE_S = 1.0
"""Seconds: a rank that was counted at least this long before the answer cannot be absent.

If it is listed as absent, its count was removed.
"""
_READINGS, _READ_AGAIN_S = 20, 0.05
GRACE_S = 5.0
"""Seconds by which ranks wait longer than the timeout for the list of absent ranks.

The first rank to arrive writes the list at its timeout; the others arrived later and wait for it.
"""


def roll_call(store: StoreClient, name: str, rank: int, world_size: int, timeout_s: float) -> List[int]:
    """Wait until every rank has reached `name`; return the ranks that did not within `timeout_s` seconds.

    All get the same answer, which is written once: a rank that arrives later learns that the others have
    continued without it.

    Raises:
        StoreLostError: the store did not answer, or somebody else wrote to it.
    """
    place = _counted(store, name, rank, world_size)
    came = time.monotonic()
    if place == world_size:
        _settle(store, name, [])
    elif not store.wait([f"{name}/answer"], timeout_s if place == 1 else timeout_s + GRACE_S):
        _settle(store, name, _absent(store, name, world_size))
    answer = store.get(f"{name}/answer", timeout_s)
    if answer is None:
        raise StoreTamperedError(f"the answer at {name} was settled and not written")
    reported = _ranks_in(answer, name, world_size)
    if rank in reported and time.monotonic() - came > _COUNTED_BEFORE_S:
        raise StoreTamperedError(f"rank {rank} waited at {name}, and is listed as absent")
    return reported


def _ranks_in(answer: bytes, name: str, world_size: int) -> List[int]:
    """Return the ranks in a written answer: a JSON list of ranks in ascending order, as `_absent` lists them.

    Raises:
        StoreTamperedError: it is anything else.
    """
    try:
        found = json.loads(answer.decode())
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list) and all(type(each) is int for each in found):
        ranks = [each for each in found if 0 <= each < world_size]
        if ranks == found == sorted(set(ranks)):
            return ranks
    raise StoreTamperedError(f"the answer at {name} is no list of ranks")


def _counted(store: StoreClient, name: str, rank: int, world_size: int) -> int:
    """Count this rank; return its position in the order of arrival.

    Raises:
        StoreTamperedError: the rank was counted already.
    """
    own, place = store.add(f"{name}/{rank}", 1), store.add(f"{name}/here", 1)
    if own != 1 or not 1 <= place <= world_size:
        raise StoreTamperedError(f"rank {rank} was counted at {name} before it arrived")
    return place


def _absent(store: StoreClient, name: str, world_size: int) -> List[int]:
    """Return the ranks that were not counted.

    A rank that arrives meanwhile adds to its own count first, so both are read twice.

    Raises:
        StoreTamperedError: the single counts do not add up to the count of all.
    """
    found: List[int] = []
    for _ in range(_READINGS):
        before = store.add(f"{name}/here", 0)
        found = [other for other in range(world_size) if not store.add(f"{name}/{other}", 0)]
        if world_size - len(found) == before == store.add(f"{name}/here", 0):
            return found
        time.sleep(_READ_AGAIN_S)
    raise StoreTamperedError(
        f"{world_size - len(found)} ranks are marked as arrived at {name}, but the counter differs"
    )


def _settle(store: StoreClient, name: str, absent: List[int]) -> None:
    """Write the list of absent ranks unless another rank has written one."""
    if store.add(f"{name}/settled", 1) == 1:
        store.set(f"{name}/answer", json.dumps(absent).encode())


def meet(store: StoreClient, name: str, me: int, other: int, note: str, timeout_s: float) -> str:
    """Exchange a short note with one other rank; return the other's.

    Raises:
        TimeoutError: the other rank did not arrive.
        StoreLostError: the store did not answer, or somebody else wrote to it.
    """
    theirs = f"{name}/{other}"
    store.set(f"{name}/{me}", note.encode())
    got = store.get(theirs, max(timeout_s, 0.0))
    if got is None:
        raise TimeoutError(f"rank {other} did not arrive within {words.seconds(timeout_s)}")
    store.delete(theirs)
    return got.decode()
