"""Decodes lines of JSON to frames and encodes them: strict, with limits, and with sanitized strings."""

from __future__ import annotations

import base64
import zlib
from typing import Any, TypeVar

import msgspec

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.plain import MAY_STEER, plain
from gpuwatch.wire.frames import AnyFrame
from gpuwatch.wire.logs import LogFile
from gpuwatch.wire.processes import Process
from gpuwatch.wire.requests import AnyRequest

T = TypeVar("T")

MAX_LINE_BYTES = 1 << 20
"""A longer line is refused before it is parsed: a full `ranks` frame of a busy node is about 100 kB."""


class FrameError(ValueError):
    """Raised for a line that is not a frame; the message is safe to show."""


class OverlongError(ValueError):
    """Raised for packed data that unpacks to more than is read."""


_decoder: msgspec.json.Decoder[AnyFrame] = msgspec.json.Decoder(AnyFrame)
_ROWS: dict[str, tuple[str, type[Process | LogFile]]] = {
    "ranks": ("processes", Process),
    "logs": ("files", LogFile),
}
"""Kind of frame -> its field with rows about different users, and their type."""
_encoder = msgspec.json.Encoder()


def decode(line: bytes) -> AnyFrame:
    """Decode one line; its strings are sanitized (see `gpuwatch.plain`).

    Processes and log files that are not valid are left out and counted as `truncated`: their values are those
    of job users, and one of these hides no other.

    Raises:
        FrameError: too long, not JSON, of an unknown kind, or a field of the wrong type.
    """
    if len(line) > MAX_LINE_BYTES:
        raise FrameError(f"a frame of {len(line)} bytes, over the limit of {MAX_LINE_BYTES}")
    try:
        return decode_strictly(line, _decoder, FrameError)
    except FrameError:
        frame = _without_bad_rows(line)
        if frame is None:
            raise
        return frame


def _without_bad_rows(line: bytes) -> AnyFrame | None:
    """Return the frame of a line without rows that are not valid; None: it has none, or is no such frame."""
    try:
        value = sanitized_value(msgspec.json.decode(line))
        name, row = _ROWS[value["kind"]]
        rows = value[name]
        kept = [each for each in rows if _is_valid(each, row)]
        if len(kept) == len(rows):
            return None
        value.update({name: kept, "truncated": value.get("truncated", 0) + len(rows) - len(kept)})
        if name == "processes":
            value.setdefault("partial", "processes that state impossible values are left out")
        return msgspec.convert(value, _decoder.type)
    except (*DECODE_ERRORS, KeyError, TypeError, AttributeError):
        return None


def _is_valid(row: object, kind: type[Process | LogFile]) -> bool:
    try:
        msgspec.convert(row, kind)
    except DECODE_ERRORS:
        return False
    return True


def decode_strictly(line: bytes, decoder: msgspec.json.Decoder[T], refusal: type[ValueError]) -> T:
    """Decode one line from a possibly hostile machine; its strings are sanitized.

    Raises:
        ValueError: an error of the class `refusal`, safe to show: not JSON, of an unknown kind, or a field of
            the wrong type.
    """
    try:
        if MAY_STEER.search(line) is None:
            return decoder.decode(line)
        return msgspec.convert(sanitized_value(msgspec.json.decode(line)), decoder.type)
    except DECODE_ERRORS as error:
        raise refusal(plain(str(error))) from error


def sanitized_value(value: Any) -> Any:  # noqa: ANN401 - JSON is what it is
    """Return a decoded JSON value with every string sanitized, keys included."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [sanitized_value(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): sanitized_value(item) for key, item in value.items()}
    return value


def encode(frame: AnyFrame) -> bytes:
    """Encode a frame as one line, newline included (demo, record and tests write frames this way)."""
    return _encoder.encode(frame) + b"\n"


def encode_request(request: AnyRequest) -> bytes:
    """Encode a request as one line, newline included."""
    return _encoder.encode(request) + b"\n"


def unpacked(packed: str, most: int, wbits: int = zlib.MAX_WBITS) -> bytes:
    """Return the bytes of a `packed` field, which is base64 of compressed data.

    `wbits`: the format, as for `zlib.decompressobj`.

    Raises:
        OverlongError: It unpacks to more than `most` bytes.
        ValueError: It is damaged.
    """
    reader = zlib.decompressobj(wbits)
    try:
        found = reader.decompress(base64.b64decode(packed, validate=True), most)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if reader.unconsumed_tail:
        raise OverlongError(f"too large: more than {most} bytes")
    return found
