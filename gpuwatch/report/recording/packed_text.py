"""Packed texts in answers (RAS, profiles) in a copy with replaced names; pieces of files are left out."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.wire import unpacked

MAX_TEXT_BYTES = 64 << 20
LEFT_OUT = "left out of this copy: a part of a file, in which names cannot be replaced"


def repacked(packed: str, change: Callable[[Any], Any]) -> str:
    """Return the text of a `packed` field (base64 of zlib data) with `change` applied, packed again.

    `change` gets the decoded value of a JSON text, else each line. "" if the text cannot be unpacked.
    """
    try:
        words = unpacked(packed, MAX_TEXT_BYTES)
    except ValueError:
        return ""
    try:
        other = msgspec.json.encode(change(msgspec.json.decode(words)))
    except DECODE_ERRORS:
        lines = words.decode("utf-8", "replace").split("\n")
        other = "\n".join(map(change, lines)).encode()
    return base64.b64encode(zlib.compress(other)).decode("ascii")


def without_file_piece(reply: object) -> object:
    """Return a decoded reply; one with a piece of a file (`wire.DumpPiece`) states an error instead."""
    match reply:
        case {"data": {"packed": str(), "size_bytes": int()}, **others}:
            return {**others, "error": LEFT_OUT}
    return reply
