"""Messages between the process with the links and a viewer: msgpack with a length prefix."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

LENGTH_BYTES = 4
MAX_MESSAGE_BYTES = 128 << 20
"""Largest message to a viewer; a key frame of 1,000 nodes is about 10 MB."""
MAX_REQUEST_BYTES = 1 << 20
"""Largest message from a viewer."""


class Opening(msgspec.Struct, tag="opening", frozen=True):
    """The first message of the relay to a viewer."""

    plan: bytes
    """The plan as JSON, without connection settings."""
    nodes: dict[int, str]
    shift_s: float
    """Converts this machine's monotonic clock to recorded time."""
    changes: bool
    """True if the viewer may acknowledge, silence, note and reconnect."""


class Packed(msgspec.Struct, tag="packed", frozen=True):
    """A block, key frame or dictionary of the stream, compressed as in a recording."""

    what: Literal["dictionary", "key", "block"]
    at: int
    """Time of the block in microseconds of recorded time; for a dictionary its id."""
    data: bytes


class Answer(msgspec.Struct, tag="answer", frozen=True):
    """A frame that answers a request of this viewer; `data` is compressed."""

    node: str
    id: int
    """The viewer's request number."""
    data: bytes


class ViewerRequest(msgspec.Struct, tag="request", frozen=True):
    """A viewer's request to a node; `body` is its JSON."""

    node: str
    body: bytes


class ViewerChange(msgspec.Struct, tag="change", frozen=True, omit_defaults=True):
    """A viewer's change that affects all viewers: acknowledge, silence, note or reconnect."""

    what: Literal["acknowledge", "unacknowledge", "silence", "unsilence", "note", "retry"]
    name: str = ""
    """Id of an alert or incident, code of a silence, or node to reconnect."""
    text: str = ""
    node: str | None = None
    gpu: int | None = None
    rank: int | None = None


ToViewer: TypeAlias = Opening | Packed | Answer
FromViewer: TypeAlias = ViewerRequest | ViewerChange

_encoder = msgspec.msgpack.Encoder()
to_viewer: msgspec.msgpack.Decoder[ToViewer] = msgspec.msgpack.Decoder(ToViewer)
from_viewer: msgspec.msgpack.Decoder[FromViewer] = msgspec.msgpack.Decoder(FromViewer)


class RelayError(Exception):
    """Raised if the other side violates the protocol, or is gone."""


def packet(message: ToViewer | FromViewer) -> bytes:
    """Return a message encoded, preceded by its length."""
    body = _encoder.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class PacketReader:
    """Splits a byte stream into message bodies of at most `most` bytes."""

    def __init__(self, most: int = MAX_MESSAGE_BYTES) -> None:
        self._buffer = bytearray()
        self._most = most

    def feed(self, data: bytes) -> list[bytes]:
        """Return the message bodies that these bytes complete.

        Raises:
            RelayError: a message is too long.
        """
        self._buffer += data
        bodies, start = [], 0
        while len(self._buffer) - start >= LENGTH_BYTES:
            begin = start + LENGTH_BYTES
            size = int.from_bytes(self._buffer[start:begin], "big")
            if size > self._most:
                raise RelayError(f"a message of {size} bytes")
            if len(self._buffer) < begin + size:
                break
            bodies.append(bytes(self._buffer[begin : begin + size]))
            start = begin + size
        del self._buffer[:start]
        return bodies
