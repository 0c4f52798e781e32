"""Connects a rank to its store, its GPU and its groups."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Union

from gpuwatch.probe.ranks.measures.clocks import CpuClock, CudaClock
from gpuwatch.probe.ranks.measures.collectives import CALLS, Buffers, CollectiveRunner
from gpuwatch.probe.ranks.measures.pairs import GlooPairs
from gpuwatch.probe.ranks.measures.pairs_nccl import NcclPairs
from gpuwatch.probe.ranks.shared import words
from gpuwatch.probe.ranks.shared.deadlines import within
from gpuwatch.probe.ranks.shared.orders import PrepareFields, SlotFields
from gpuwatch.probe.ranks.shared.store_barrier import roll_call
from gpuwatch.probe.ranks.shared.store_client import StoreClient, StoreLostError, torch_store
from gpuwatch.probe.ranks.shared.torch_types import Store, Torch

_WATCHDOG_S = 15.0
"""Seconds by which NCCL's watchdog is later than the probe's own time limits.

It ends the process, which is the last resort.
"""


_GRACE_S = 5.0
"""Seconds by which the probe's limit exceeds torch's own, whose message has more detail."""


class CannotJoinError(RuntimeError):
    """Raised if this rank cannot take part; the message states why."""


class NotConnectedError(CannotJoinError):
    """Raised if the ranks cannot connect: others and the network can cause that, so it names nobody."""


class JoinedRank(NamedTuple):
    """A rank that has joined, with what its steps need."""

    rank: int
    world_size: int
    store: StoreClient
    pairs: Union[GlooPairs, NcclPairs]
    collectives: Optional[CollectiveRunner]
    """The runner of collectives; None without a group of all ranks."""
    notes: List[str]


def join(torch: Torch, prepare: PrepareFields, slot: SlotFields, arrived: Callable[[], None]) -> JoinedRank:
    """Connect to the store, wait for all ranks, create the groups and try their operations.

    Args:
        torch: The module.
        prepare: The order to all ranks.
        slot: The slot of this rank.
        arrived: Called when the store is reached, before the others are waited for.

    Raises:
        CannotJoinError: with the reason; absent ranks are named by number.
    """
    store = StoreClient(prepare.store_address, prepare.store_port, prepare.secret, prepare.timeout_s)
    try:
        store.reach(prepare.join_s)
        arrived()
        return _join(torch, prepare, slot, store)
    except CannotJoinError:
        store.close()
        raise
    except Exception as error:  # after its arrival what others send can make torch fail in many ways
        store.close()
        raise NotConnectedError(words.first_line(error)) from error


def _join(torch: Torch, prepare: PrepareFields, slot: SlotFields, store: StoreClient) -> JoinedRank:
    absent = roll_call(store, "join", slot.rank, prepare.world_size, prepare.join_s)
    if absent:
        late = f"{words.ranks(absent)} did not join within {words.seconds(prepare.join_s)}"
        raise NotConnectedError(late if slot.rank not in absent else f"too late: {late}")
    of_groups = torch_store(torch, store, prepare.timeout_s)
    member = _nccl_member if prepare.backend == "nccl" else _gloo_member
    return member(torch, prepare, slot, store, of_groups)


def _nccl_member(
    torch: Torch, prepare: PrepareFields, slot: SlotFields, store: StoreClient, of_groups: Store
) -> JoinedRank:
    try:
        buffers = Buffers(torch, torch.device("cuda", 0))
        pairs = NcclPairs(torch, store, of_groups, slot.rank, buffers, prepare.pairs_only)
    except (*words.TORCH_ERRORS, AssertionError) as error:  # a torch without CUDA asserts
        raise CannotJoinError(f"its GPU cannot be used: {words.first_line(error)}") from error
    member = JoinedRank(slot.rank, prepare.world_size, store, pairs, None, [])
    if prepare.pairs_only:
        return member
    try:
        _build_group(torch, prepare, slot, of_groups)
    except StoreLostError:
        raise
    except Exception as error:
        reason = f"cannot create the group of all ranks: {words.first_line(error)}"
        raise NotConnectedError(reason) from error
    return _able(
        member, CollectiveRunner(torch, buffers, CudaClock(torch), slot.rank, prepare.world_size), prepare
    )


def _gloo_member(
    torch: Torch, prepare: PrepareFields, slot: SlotFields, store: StoreClient, of_groups: Store
) -> JoinedRank:
    """Join over gloo, and return this rank as a member.

    If the group of all cannot be created, pairs still can: their matrix shows which link is bad.
    """
    buffers = Buffers(torch, torch.device("cpu"))
    pairs = GlooPairs(torch, store, of_groups, slot.rank, buffers)
    member = JoinedRank(slot.rank, prepare.world_size, store, pairs, None, [])
    if prepare.pairs_only:
        return member
    try:
        _build_group(torch, prepare, slot, of_groups)
    except StoreLostError:
        raise
    except Exception as error:  # of gloo, by what it received: it need not be one that torch documents
        store.confirm()
        member.notes.append(f"no group of all ranks, only pairs: {words.first_line(error)}")
        return member
    without = roll_call(store, "built", slot.rank, prepare.world_size, prepare.timeout_s + _GRACE_S)
    if without:
        member.notes.append(
            f"no group of all ranks, only pairs: {words.ranks(without)} cannot connect to all"
        )
        return member
    clock = CpuClock(torch.distributed.barrier)
    return _able(member, CollectiveRunner(torch, buffers, clock, slot.rank, prepare.world_size), prepare)


def _build_group(torch: Torch, prepare: PrepareFields, slot: SlotFields, of_groups: Store) -> None:
    """Create the group of all ranks, without `device_id`.

    Eager set-up hangs in some versions and serialises pairs.

    Raises:
        RuntimeError, TimeoutError: it could not be built.
    """
    last_resort = _WATCHDOG_S if prepare.backend == "nccl" else 0.0

    def build() -> None:
        torch.distributed.init_process_group(
            prepare.backend,
            store=torch.distributed.PrefixStore("all", of_groups),
            rank=slot.rank,
            world_size=prepare.world_size,
            timeout=timedelta(seconds=prepare.timeout_s + last_resort),
        )

    limit = prepare.timeout_s + _GRACE_S
    try:
        within(limit, build)
    except TimeoutError as error:
        raise TimeoutError(f"not all ranks could be connected within {words.seconds(limit)}") from error


def _able(member: JoinedRank, collectives: CollectiveRunner, prepare: PrepareFields) -> JoinedRank:
    """Return the member with the collectives that its group supports; a failure becomes one of its notes."""
    try:
        within(prepare.timeout_s + _GRACE_S, lambda: collectives.learn(prepare.timeout_s))
    except Exception as error:  # the pairs will show which link it was
        member.store.confirm()
        member.notes.append(f"a first small collective failed: {words.first_line(error)}")
    return member._replace(collectives=collectives)


def ready(
    torch: Torch, member: JoinedRank, prepare: PrepareFields, slot: SlotFields, import_s: float, began: float
) -> Dict[str, Any]:
    """Return the fields of `protocol.Ready` for a rank that has joined.

    Args:
        torch: The module.
        member: The joined rank.
        prepare: The order to all ranks.
        slot: The slot of this rank.
        import_s: Seconds that importing torch took, once for all ranks of the node.
        began: `time.perf_counter()` when this rank began to join.
    """
    message: Dict[str, Any] = {
        "kind": "ready",
        "rank": slot.rank,
        "pid": os.getpid(),
        "backend": prepare.backend,
        "torch": str(torch.__version__),
        "import_s": import_s,
        "init_s": time.perf_counter() - began,
        "lacks": member.collectives.lacks if member.collectives else list(CALLS),
    }
    if prepare.backend == "nccl":
        message["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
        message["nccl_backend"] = _implementation(torch)
        message["device"] = torch.cuda.get_device_name(0)
        message["gpu"] = slot.gpu
    return message


def _implementation(torch: Torch) -> str:
    """Return the NCCL implementation that torch uses; "nccl" if it has only one, or there is no group."""
    dist = torch.distributed
    if not hasattr(dist, "get_backend_impl") or not dist.is_initialized():
        return "nccl"
    kind = type(dist.get_backend_impl(device=torch.device("cuda", 0))).__name__
    return kind.replace("ProcessGroup", "").lower()
