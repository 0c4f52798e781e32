"""How a rank comes to its store, its GPU and its groups, and what it then is."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any, Dict, List, NamedTuple, Optional, Union

from gpuwatch.probe.work import words
from gpuwatch.probe.work.clocks import CpuClock, CudaClock
from gpuwatch.probe.work.collectives import Buffers, Collectives
from gpuwatch.probe.work.handed import Store, Torch
from gpuwatch.probe.work.orders import Prepare, Seat
from gpuwatch.probe.work.pairs import GlooPairs
from gpuwatch.probe.work.pairs_nccl import NcclPairs
from gpuwatch.probe.work.rollcall import StoreLostError, roll_call

_WATCHDOG_S = 15.0
"""Later than our own time limits: NCCL's watchdog ends the process, which is the last resort."""


class CannotJoinError(RuntimeError):
    """This rank cannot take part; the message says why, in words."""


class Member(NamedTuple):
    """A rank that has joined."""

    rank: int
    world_size: int
    store: Store
    pairs: Union[GlooPairs, NcclPairs]
    collectives: Optional[Collectives]
    """None where there is no group of all."""
    notes: List[str]


def host_store(torch: Torch, prepare: Prepare, fd: int) -> Store:
    """The store of the probe, on a socket that listens already: torch's own would listen on every interface.

    Raises:
        RuntimeError: torch did not take it.
    """

    def hosted(**more: bool) -> Store:
        return torch.distributed.TCPStore(
            prepare.store_address,
            prepare.store_port,
            is_master=True,
            wait_for_workers=False,
            timeout=timedelta(seconds=prepare.timeout_s),
            master_listen_fd=os.dup(fd),
            **more,
        )

    try:
        return hosted()
    except RuntimeError as error:  # some versions have two stores, and one does not take a socket
        if "libuv" not in str(error):
            raise
        return hosted(use_libuv=False)


def join(torch: Torch, prepare: Prepare, seat: Seat) -> Member:
    """Connect to the store, wait for all ranks, build the groups and try what they can.

    Raises:
        CannotJoinError: with the reason, the absent ranks by number.
    """
    dist = torch.distributed
    within = timedelta(seconds=prepare.timeout_s)
    where = f"{prepare.store_address}:{prepare.store_port}"
    try:
        store = dist.TCPStore(
            prepare.store_address, prepare.store_port, is_master=False, wait_for_workers=False, timeout=within
        )
    except RuntimeError as error:
        raise CannotJoinError(f"cannot reach the store at {where}: {words.first_line(error)}") from error
    try:
        absent = roll_call(store, "join", seat.rank, prepare.world_size, prepare.timeout_s)
    except StoreLostError as error:
        raise CannotJoinError(str(error)) from error
    if absent:
        late = f"{words.ranks(absent)} did not join within {prepare.timeout_s:.0f} s"
        raise CannotJoinError(late if seat.rank not in absent else f"too late: {late}")
    try:
        return _member(torch, prepare, seat, store)
    except RuntimeError as error:
        raise CannotJoinError(f"cannot build the group of all: {words.first_line(error)}") from error


def _member(torch: Torch, prepare: Prepare, seat: Seat, store: Store) -> Member:
    nccl = prepare.backend == "nccl"
    device = torch.device("cuda", 0) if nccl else torch.device("cpu")
    if nccl:
        torch.cuda.set_device(0)
    buffers = Buffers(torch, device)
    pairs: Union[GlooPairs, NcclPairs] = (
        NcclPairs(torch, store, seat.rank, buffers, device, alone=prepare.pairs_only)
        if nccl
        else GlooPairs(torch, store, seat.rank, buffers)
    )
    if prepare.pairs_only:
        return Member(seat.rank, prepare.world_size, store, pairs, None, [])
    dist = torch.distributed
    # No `device_id`: eager set-up has hung on some versions and puts pairs into one line.
    dist.init_process_group(
        prepare.backend,
        store=dist.PrefixStore("all", store),
        rank=seat.rank,
        world_size=prepare.world_size,
        timeout=timedelta(seconds=prepare.timeout_s + (_WATCHDOG_S if nccl else 0.0)),
    )
    clock = CudaClock(torch) if nccl else CpuClock(dist.barrier)
    collectives = Collectives(torch, device, buffers, clock, seat.rank, prepare.world_size)
    notes = []
    try:
        collectives.learn(prepare.timeout_s)
    except (RuntimeError, TimeoutError) as error:  # the pairs will tell which link it was
        notes.append(f"a first small collective failed: {words.first_line(error)}")
    return Member(seat.rank, prepare.world_size, store, pairs, collectives, notes)


def ready(
    torch: Torch, member: Member, prepare: Prepare, seat: Seat, import_s: float, began: float
) -> Dict[str, Any]:
    """The fields of `talk.Ready`.

    Args:
        torch: The module.
        member: What this rank is.
        prepare: What it was told.
        seat: Its place.
        import_s: Of torch, once for all ranks of the node.
        began: `time.perf_counter()` when this rank began to join.
    """
    said: Dict[str, Any] = {
        "kind": "ready",
        "rank": seat.rank,
        "pid": os.getpid(),
        "backend": prepare.backend,
        "torch": str(torch.__version__),
        "import_s": import_s,
        "init_s": time.perf_counter() - began,
        "lacks": member.collectives.lacks if member.collectives else [],
    }
    if prepare.backend == "nccl":
        said["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
        said["nccl_backend"] = _implementation(torch)
        said["device"] = torch.cuda.get_device_name(0)
        said["gpu"] = seat.gpu
    return said


def _implementation(torch: Torch) -> str:
    """Which of its NCCL implementations torch took for the name: "nccl" where it has one only."""
    dist = torch.distributed
    if not hasattr(dist, "get_backend_impl") or not dist.is_initialized():
        return "nccl"
    kind = type(dist.get_backend_impl(device=torch.device("cuda", 0))).__name__
    return kind.replace("ProcessGroup", "").lower()
