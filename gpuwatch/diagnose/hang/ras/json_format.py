"""Parses RAS's JSON output (NCCL 2.28.7 and later): every rank with its counts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.diagnose.hang.ras.model import Bucket, Communicator, Ras, RasError, RasRank
from gpuwatch.plain import plain

DONE, IN_PROGRESS = 0, 7
"""Values of ncclSuccess and ncclInProgress, as in the fields init_state and async_error."""
RESULTS = {
    1: "unhandled CUDA error",
    2: "system error",
    3: "internal error",
    4: "invalid argument",
    5: "invalid usage",
    6: "remote process error",
}
"""Names of ncclResult_t values in nccl.h."""


class _Status(msgspec.Struct):
    init_state: int = 0
    async_error: int = 0
    finalize_called: bool = False
    destroy_flag: bool = False
    abort_flag: bool = False
    unresponsive: bool = False
    considered_dead: bool = False


class _JsonRank(msgspec.Struct):
    rank: int
    host: str | None = None
    pid: int | None = None
    cuda_dev: int | None = None
    status: _Status = msgspec.field(default_factory=_Status)
    collective_counts: dict[str, int] = {}
    unresponsive: bool = False
    considered_dead: bool = False


class _Communicator(msgspec.Struct):
    hash: str = ""
    size: int | None = None
    ranks: list[_JsonRank] = []
    missing_ranks: list[_JsonRank] = []


class _Gathering(msgspec.Struct):
    timeouts_count: int = 0


class _Answer(msgspec.Struct):
    nccl_version: str | None = None
    communicators: list[_Communicator] = []
    ras: _Gathering = msgspec.field(default_factory=_Gathering)


_NO_COMMA = re.compile(rb'(?<=[\w"\]}])(?=[ \t]*\r?\n[ \t]{0,64}")')
"""The end of a value before a key: NCCL 2.28.9 omits the comma before the `status` of a missing rank."""


def _decoded(words: bytes) -> _Answer:
    try:
        return msgspec.json.decode(words, type=_Answer)
    except DECODE_ERRORS:
        return msgspec.json.decode(_NO_COMMA.sub(b",", words), type=_Answer)


def read_json(words: bytes, node: str, address: str) -> Ras:
    """Parse RAS's JSON output.

    Raises:
        RasError: `words` is not JSON, or not the output of RAS.
    """
    try:
        found = _decoded(words)
    except DECODE_ERRORS as error:
        raise RasError(f"not the JSON of NCCL RAS: {plain(str(error))[:160]}") from error
    version = plain(found.nccl_version)[:40] if found.nccl_version else None
    communicators = tuple(_communicator(each) for each in found.communicators)
    counted = sum(bool(rank.collective_counts) for each in found.communicators for rank in each.ranks)
    return Ras(node, address, version, communicators, counted, found.ras.timeouts_count)


def _communicator(found: _Communicator) -> Communicator:
    failed, states = [], {}
    for rank in found.ranks:
        peer, status = _peer(rank), rank.status
        error = next(
            (e for e in (status.async_error, status.init_state) if e not in (DONE, IN_PROGRESS)), None
        )
        if error is not None:
            failed.append((peer, RESULTS.get(error, f"error {error}")))
        states[peer] = _state(status)
    usual = max(set(states.values()), key=list(states.values()).count, default="running")
    missing = [(_peer(rank), rank) for rank in found.missing_ranks]
    dead = tuple(peer for peer, rank in missing if rank.considered_dead or rank.status.considered_dead)
    silent = tuple(
        peer for peer, rank in missing if peer not in dead and (rank.unresponsive or rank.status.unresponsive)
    )
    return Communicator(
        hash=plain(found.hash)[:40],
        size=found.size,
        silent=silent,
        dead=dead,
        left=tuple(peer for peer, _ in missing if peer not in dead and peer not in silent),
        failed=tuple(failed),
        ending=tuple((peer, state) for peer, state in states.items() if state != usual),
        launched=_launched(found.ranks),
    )


def _peer(rank: _JsonRank) -> RasRank:
    host = plain(rank.host)[:80] if rank.host and rank.host != "unknown" else None
    return RasRank(rank.rank, host, rank.pid if rank.pid != -1 else None, rank.cuda_dev)


def _state(status: _Status) -> str:
    """Return the name of a state, as RAS's text output gives it."""
    if status.abort_flag:
        return "aborted"
    if status.finalize_called or status.destroy_flag:
        return "finalizing"
    return "running" if status.init_state == DONE else "initializing"


def _launched(ranks: Iterable[_JsonRank]) -> dict[str, tuple[Bucket, ...]]:
    counts: dict[str, dict[int, list[RasRank]]] = defaultdict(lambda: defaultdict(list))
    for rank in ranks:
        for name, count in rank.collective_counts.items():
            counts[plain(name)[:40]][count].append(_peer(rank))
    return {
        name: tuple(Bucket(count, len(peers), tuple(peers)) for count, peers in sorted(by_count.items()))
        for name, by_count in counts.items()
        if len(by_count) > 1
    }
