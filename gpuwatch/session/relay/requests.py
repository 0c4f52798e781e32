"""Viewers' requests to nodes: which of them are forwarded, and the answers to refused ones."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import structs

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.wire import (
    AnyFrame,
    AnyRequest,
    AskDumpFiles,
    AskDumpPiece,
    AskDumps,
    AskRankSettings,
    AskRas,
    AskStacks,
    AskSystemSettings,
    Cancel,
    Lines,
    ReadLines,
    Reply,
    Search,
    Tail,
)

READING = (
    Tail, ReadLines, Search, Cancel, AskStacks, AskRas, AskDumpFiles, AskDumpPiece, AskRankSettings,
    AskSystemSettings,
)  # fmt: skip
"""Types of requests that change nothing on a node."""
CHANGING = (AskDumps,)
"""Types of requests that only viewers with `changes` may make; the session alone may make all others."""
STREAMING = (Tail, Search)
"""Types of requests that are answered until they are cancelled."""

ABOUT_PROCESSES: Final = (AskStacks, AskRas, AskDumpFiles, AskDumps, AskRankSettings)

_decoder: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)


def read_request(body: bytes) -> AnyRequest | None:
    """Decode a viewer's request; return None if it is invalid."""
    try:
        return _decoder.decode(body)
    except DECODE_ERRORS:
        return None


def is_allowed(request: AnyRequest, *, changes: bool) -> bool:
    """Return True if a viewer may make a request: one of READING, or one of CHANGING with `changes`."""
    return isinstance(request, READING) or (changes and isinstance(request, CHANGING))


def bounded_request(request: AnyRequest, node: str, fleet: Fleet) -> AnyRequest | None:
    """Return a viewer's request, limited to processes and addresses that the fleet lists.

    None: it asks for a dump of a process that is not listed. A viewer names neither programs that a node
    runs, nor addresses that it connects to.
    """
    listed = {process.pid for process in fleet.nodes[node].processes}
    if isinstance(request, AskDumpPiece):
        return request if request.pid in listed else None
    if isinstance(request, ABOUT_PROCESSES):
        request = structs.replace(request, pids=[pid for pid in request.pids if pid in listed])
    if isinstance(request, AskStacks):
        return structs.replace(request, py_spy=None if request.py_spy is None else "")
    if isinstance(request, AskRankSettings):
        stated = {each.master for one in fleet.nodes.values() for each in one.processes}
        return structs.replace(request, reach=[each for each in request.reach if each in stated], ports=[])
    return request


def refusal(request: AnyRequest, reason: str) -> AnyFrame:
    """Return the answer to a refused request, with the reason as its error."""
    if isinstance(request, Tail | ReadLines | Search):
        return Lines(t=0.0, seq=0, id=request.id, done=True, error=reason)
    return Reply(t=0.0, seq=0, id=getattr(request, "id", 0), error=reason)
