"""Requests of viewers to nodes: which are handed on, under which number, and what answers the others."""

from __future__ import annotations

import msgspec

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
"""They change nothing on a node."""
CHANGING = (AskDumps,)
"""A viewer that may change things may make these, too; any other is the session's own business."""
STREAMING = (Tail, Search)
"""Answered until they are cancelled."""

_decoder: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)


def read_request(body: bytes) -> AnyRequest | None:
    """The request of a viewer; None: it is none."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def is_allowed(request: AnyRequest, *, changes: bool) -> bool:
    """Whether a viewer may make such a request."""
    return isinstance(request, READING) or (changes and isinstance(request, CHANGING))


def refusal(request: AnyRequest, reason: str) -> AnyFrame:
    """What answers a request that is not handed on."""
    if isinstance(request, Tail | ReadLines | Search):
        return Lines(t=0.0, seq=0, id=request.id, done=True, error=reason)
    return Reply(t=0.0, seq=0, id=getattr(request, "id", 0), error=reason)
