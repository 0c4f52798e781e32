"""Parses protobuf messages into numbered fields, without a schema."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_VARINT_BYTES = 10


class Field(NamedTuple):
    """A field of a message; `value` is an int (varint) or bytes."""

    number: int
    kind: int
    value: int | bytes

    @property
    def data(self) -> bytes:
        """The bytes of the field; empty for a varint."""
        return self.value if isinstance(self.value, bytes) else b""

    @property
    def text(self) -> str:
        """The bytes as UTF-8."""
        return self.data.decode(errors="replace")

    @property
    def number_value(self) -> float | None:
        """The value as float, double or integer; None for bytes of another size."""
        if isinstance(self.value, int):
            return float(self.value)
        if self.kind == FIXED32:
            return float(struct.unpack("<f", self.value)[0])
        return float(struct.unpack("<d", self.value)[0]) if self.kind == FIXED64 else None


def fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a message, as far as it is complete; groups end it."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        kind = key & 7
        if kind == VARINT:
            value, at = varint(message, at)
            if at:
                yield Field(key >> 3, kind, value)
                continue
        size = {FIXED64: 8, FIXED32: 4}.get(kind)
        if kind == BYTES:
            size, at = varint(message, at)
        if not at or size is None or at + size > len(message):
            return
        yield Field(key >> 3, kind, message[at : at + size])
        at += size


def varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a varint and the offset after it; (0, 0): truncated or too long."""
    found = shift = 0
    for count in range(MAX_VARINT_BYTES):
        if at + count >= len(message):
            break
        byte = message[at + count]
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at + count + 1
        shift += 7
    return 0, 0


def inner(message: bytes, number: int) -> Iterator[bytes]:
    """Yield the submessages in the field of this number."""
    return (field.data for field in fields(message) if field.number == number and field.kind == BYTES)


def first(message: bytes, number: int) -> Field | None:
    """Return the first field with this number, or None."""
    return next((field for field in fields(message) if field.number == number), None)
