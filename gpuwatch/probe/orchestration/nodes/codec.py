"""Lines of a launcher to what was stated, and orders to lines: strict, bounded, its strings harmless."""

from __future__ import annotations

import msgspec

from gpuwatch.probe.protocol import AnyNodeMessage, AnyOrder
from gpuwatch.wire.codec import decode_strictly

MAX_LINE_BYTES = 1 << 20
"""A preflight of a node with 16 GPUs and their processes is about 10 kB."""


class TalkError(ValueError):
    """A line that nobody could have stated; the message is safe to show."""


_decoder: msgspec.json.Decoder[AnyNodeMessage] = msgspec.json.Decoder(AnyNodeMessage)
_encoder = msgspec.json.Encoder()


def decode_message(line: bytes | None) -> AnyNodeMessage:
    """Decode one line of a launcher; None is one that was too long to be kept.

    Raises:
        TalkError: too long, not JSON, of an unknown kind, or a field of the wrong type.
    """
    if line is None:
        raise TalkError(f"a line of more than {MAX_LINE_BYTES} bytes")
    return decode_strictly(line, _decoder, TalkError)


def encode_order(order: AnyOrder) -> bytes:
    """Encode an order as one line, newline included."""
    return _encoder.encode(order) + b"\n"
