"""Connects a rank to its store, its GPU and its groups."""

from __future__ import annotations

import math
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
from gpuwatch.probe.ranks.shared.sealed_store import SealedStore, StoreLostError
from gpuwatch.probe.ranks.shared.store_barrier import roll_call
from gpuwatch.probe.ranks.shared.torch_types import Store, Torch

_WATCHDOG_S = 15.0
"""Seconds by which NCCL's watchdog is later than the probe's own time limits.

It ends the process, which is the last resort.
"""


_GRACE_S = 5.0
"""Seconds by which the probe's limit exceeds torch's own, whose message has more detail."""


class CannotJoinError(RuntimeError):
    """Raised if this rank cannot take part; the message states why."""


class JoinedRank(NamedTuple):
    """A rank that has joined, with what its steps need."""

    rank: int
    world_size: int
    store: SealedStore
    pairs: Union[GlooPairs, NcclPairs]
    collectives: Optional[CollectiveRunner]
    """The runner of collectives; None without a group of all ranks."""
    notes: List[str]


def host_store(torch: Torch, prepare: PrepareFields, fd: int) -> Store:
    """Return the store of the probe, on a socket that already listens: torch's own listens on all interfaces.

    Raises:
        RuntimeError: torch did not accept the socket.
    """

    def hosted(**more: bool) -> Store:
        return torch.distributed.TCPStore(
            prepare.store_address,
            prepare.store_port,
            is_master=True,
            wait_for_workers=False,
            timeout=_store_limit(prepare),
            master_listen_fd=os.dup(fd),
            **more,
        )

    try:
        return hosted()
    except words.TORCH_ERRORS as error:  # some versions have two stores, and one does not take a socket
        if "libuv" not in str(error):
            raise
        return hosted(use_libuv=False)


def _store_limit(prepare: PrepareFields) -> timedelta:
    """Return the limit in whole seconds: torch 2.1 ignores fractions, and zero fails at once."""
    return timedelta(seconds=math.ceil(prepare.timeout_s))


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
    address, port, limit = prepare.store_address, prepare.store_port, _store_limit(prepare)

    def new_store(patience: timedelta = limit) -> Store:
        return torch.distributed.TCPStore(
            address, port, is_master=False, wait_for_workers=False, timeout=patience
        )

    try:
        # Its node may be slower than ours to import torch; until then the kernel alone listens there.
        reached = new_store(timedelta(seconds=math.ceil(prepare.join_s)))
        reached.set_timeout(limit)
    except words.TORCH_ERRORS as error:
        raise CannotJoinError(
            f"cannot reach the store at {address}:{port}: {words.first_line(error)}"
        ) from error
    arrived()
    store = SealedStore(reached, prepare.secret)
    try:
        absent = roll_call(store, "join", slot.rank, prepare.world_size, prepare.join_s)
    except StoreLostError as error:
        raise CannotJoinError(str(error)) from error
    if absent:
        late = f"{words.ranks(absent)} did not join within {words.seconds(prepare.join_s)}"
        raise CannotJoinError(late if slot.rank not in absent else f"too late: {late}")
    if prepare.backend == "nccl":
        return _nccl_member(torch, prepare, slot, store, new_store)
    try:
        return _gloo_member(torch, prepare, slot, store, new_store)
    except words.TORCH_ERRORS as error:
        raise CannotJoinError(f"the store was lost: {words.first_line(error)}") from error


def _nccl_member(
    torch: Torch, prepare: PrepareFields, slot: SlotFields, store: SealedStore, new_store: Callable[[], Store]
) -> JoinedRank:
    try:
        buffers = Buffers(torch, torch.device("cuda", 0))
        own_store = SealedStore(new_store(), prepare.secret)
        pairs = NcclPairs(torch, own_store, slot.rank, buffers, prepare.pairs_only)
    except (*words.TORCH_ERRORS, AssertionError) as error:  # a torch without CUDA asserts
        raise CannotJoinError(f"its GPU cannot be used: {words.first_line(error)}") from error
    member = JoinedRank(slot.rank, prepare.world_size, store, pairs, None, [])
    if prepare.pairs_only:
        return member
    try:
        _build_group(torch, prepare, slot, store.group("all"), new_store)
    except words.TORCH_ERRORS as error:
        raise CannotJoinError(f"cannot create the group of all ranks: {words.first_line(error)}") from error
    return _able(
        member, CollectiveRunner(torch, buffers, CudaClock(torch), slot.rank, prepare.world_size), prepare
    )


def _gloo_member(
    torch: Torch, prepare: PrepareFields, slot: SlotFields, store: SealedStore, new_store: Callable[[], Store]
) -> JoinedRank:
    """Join over gloo.

    If the group of all cannot be created, pairs still can: their matrix shows which link is bad.
    """
    buffers = Buffers(torch, torch.device("cpu"))
    pairs = GlooPairs(torch, new_store, SealedStore(new_store(), prepare.secret), slot.rank, buffers)
    member = JoinedRank(slot.rank, prepare.world_size, store, pairs, None, [])
    if prepare.pairs_only:
        return member
    try:
        _build_group(torch, prepare, slot, store.group("all"), new_store)
    except words.TORCH_ERRORS as error:
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


def _build_group(
    torch: Torch, prepare: PrepareFields, slot: SlotFields, prefix: str, new_store: Callable[[], Store]
) -> None:
    """Create the group of all ranks, without `device_id`.

    Eager set-up hangs in some versions and serialises pairs.

    Raises:
        RuntimeError, TimeoutError: it could not be built.
    """
    last_resort = _WATCHDOG_S if prepare.backend == "nccl" else 0.0

    def build() -> None:
        torch.distributed.init_process_group(
            prepare.backend,
            store=torch.distributed.PrefixStore(prefix, new_store()),
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
    except words.TORCH_ERRORS as error:  # the pairs will show which link it was
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
