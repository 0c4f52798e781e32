"""Viewers' requests to nodes: which of them are forwarded, and the answers to refused ones."""

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
"""Requests that change nothing on a node."""
CHANGING = (AskDumps,)
"""Requests allowed to viewers with `changes`; all others are reserved to the session."""
STREAMING = (Tail, Search)
"""Requests that are answered until they are cancelled."""

_decoder: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)


def read_request(body: bytes) -> AnyRequest | None:
    """Decode a viewer's request; return None if it is invalid."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def is_allowed(request: AnyRequest, *, changes: bool) -> bool:
    """Return True for a reading request.

    For others that `CHANGING` lists, only if viewers may make changes.
    """
    return isinstance(request, READING) or (changes and isinstance(request, CHANGING))


def refusal(request: AnyRequest, reason: str) -> AnyFrame:
    """Return the answer to a refused request, with the reason as its error."""
    if isinstance(request, Tail | ReadLines | Search):
        return Lines(t=0.0, seq=0, id=request.id, done=True, error=reason)
    return Reply(t=0.0, seq=0, id=getattr(request, "id", 0), error=reason)
