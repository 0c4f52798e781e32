"""Decodes lines of JSON to frames and encodes them: strict, with limits, and with sanitized strings."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.plain import may_steer, plain
from gpuwatch.wire.frames import AnyFrame
from gpuwatch.wire.logs import Finding, LogFile
from gpuwatch.wire.processes import Process
from gpuwatch.wire.progress import Progress
from gpuwatch.wire.requests import AnyRequest

T = TypeVar("T")

MAX_LINE_BYTES = 1 << 20
"""A longer line is refused before it is parsed: a full `ranks` frame of a busy node is about 100 kB."""


class FrameError(ValueError):
    """Raised for a line that is not a frame; the message is safe to show."""


class OverlongError(ValueError):
    """Raised for packed data that unpacks to more than is read."""


_decoder: msgspec.json.Decoder[AnyFrame] = msgspec.json.Decoder(AnyFrame)
_OWN = frozenset({"v", "role", "key", "count", "closed", "backlog", "timed", "bound"})
"""Fields that only the agent states; a frame with an invalid one is refused as a whole."""
_ROWS: dict[str, tuple[str, type[Process | LogFile]]] = {
    "ranks": ("processes", Process),
    "logs": ("files", LogFile),
}
"""Kind of frame -> (its field with rows that may belong to different users, type of a row)."""
MAX_ROWS, MAX_BAD_ROWS = 20_000, 1_024
"""Most rows of a frame with invalid rows, and most invalid ones among them; agents list fewer in all."""
_OPTIONAL: dict[str, dict[str, Any]] = {
    kind: {
        each.encode_name: each.type
        for each in msgspec.structs.fields(frame)
        if not each.required and each.encode_name not in _OWN
    }
    for kind, frame in (("finding", Finding), ("progress", Progress))
}
"""Kind of frame -> its optional fields that may hold text of job users, with their types."""
_encoder = msgspec.json.Encoder()


def decode(line: bytes) -> AnyFrame:
    """Decode one line to a frame; its strings are sanitized (see `gpuwatch.plain`).

    An invalid value that a job user can state does not hide the rest of a frame: invalid rows of processes
    and log files are left out and counted in `truncated`; invalid optional fields of findings and progress
    are left out.

    Raises:
        FrameError: The line is too long, not JSON, of an unknown kind, or has a field of the wrong type.
    """
    if len(line) > MAX_LINE_BYTES:
        raise FrameError(f"a frame of {len(line)} bytes, over the limit of {MAX_LINE_BYTES}")
    try:
        return decode_strictly(line, _decoder, FrameError)
    except FrameError:
        frame = _with_valid_parts(line)
        if frame is None:
            raise
        return frame


def _with_valid_parts(line: bytes) -> AnyFrame | None:
    """Return the frame of a line without its invalid parts that job users state; None if that is impossible.

    From lists of processes and log files, invalid rows are dropped; from findings and progress, invalid
    optional fields. An invalid required field (a host name of 5,000 letters) is still an error.
    """
    try:
        value = msgspec.json.decode(line)
        if value["kind"] in _ROWS:
            return _without_bad_rows(value)
        return _without_bad_fields(value, _OPTIONAL[value["kind"]])
    except (*DECODE_ERRORS, KeyError, TypeError, AttributeError):
        return None


def _without_bad_rows(value: dict[str, Any]) -> AnyFrame | None:
    name, row = _ROWS[value["kind"]]
    if not isinstance(value[name], list) or len(value[name]) > MAX_ROWS:
        return None
    value = sanitized_value(value)
    kept, bad = [], 0
    for each in value[name]:
        if _is_valid(each, row):
            kept.append(each)
        elif bad < MAX_BAD_ROWS:
            bad += 1
        else:
            return None
    if not bad:
        return None
    value.update({name: kept, "truncated": value.get("truncated", 0) + bad})
    if name == "processes":
        value.setdefault("partial", "processes that state impossible values are left out")
    return msgspec.convert(value, _decoder.type)


def _without_bad_fields(value: dict[str, Any], optional: Mapping[str, Any]) -> AnyFrame:
    value = sanitized_value(value)
    bad = [name for name, kind in optional.items() if name in value and not _is_valid(value[name], kind)]
    return msgspec.convert({name: value[name] for name in value if name not in bad}, _decoder.type)


def _is_valid(value: object, kind: Any) -> bool:  # noqa: ANN401 - a type as an annotation states it
    try:
        msgspec.convert(value, kind)
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
        if not may_steer(line):
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

    `wbits`: the format, as for `zlib.decompressobj`. Of data that is cut off, the bytes until then.

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
