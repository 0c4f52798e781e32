"""Signs the messages between the ranks and the store of a probe, to whose port anyone may connect.

A secret, which is sent over the connections to the launchers, and a nonce of each end give a key for each
direction of a connection; every message has signatures (HMAC-SHA256) of its length and of its bytes, both
with its number. Without the secret nobody can read or write a value, nor alter, repeat or leave out a message
without its being seen.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from typing import Any, Dict, Tuple

Header = Dict[str, Any]
"""What a message says, a JSON object, apart from the value that it carries."""
NONCE_BYTES = 16
HEAD = struct.Struct(">4s32s32s")
"""The number of bytes that follow, the signature of this number, and that of the bytes."""
MAX_UNKNOWN_BYTES = 4096
"""Maximum length of a message from an end that has not shown yet that it knows the secret."""
MAX_BYTES = 1 << 26
"""Maximum length of a message: gloo writes about 160 bytes for each rank into one value."""
ASK, ANSWER = b"ask", b"answer"
"""The two directions."""


class ForgedError(ValueError):
    """Raised if a message was not sent, in this place, by an end that knows the secret."""


class MessageSigner:
    """Signs or checks the messages of one direction of one connection, in their order.

    Args:
        secret: The secret of the probe.
        nonces: The nonce of the rank, then that of the store.
        way: `ASK` or `ANSWER`.
    """

    def __init__(self, secret: str, nonces: bytes, way: bytes) -> None:
        self._key = hmac.new(secret.encode(), way + nonces, hashlib.sha256).digest()
        self._count = 0

    def packed(self, header: Header, value: bytes = b"") -> bytes:
        """Return the next message, signed, as bytes; `value` follows the header."""
        body = json.dumps(header).encode() + b"\n" + value
        size = len(body).to_bytes(4, "big")
        self._count += 1
        return HEAD.pack(size, self._signature(b"size", size), self._signature(b"body", body)) + body

    def length(self, head: bytes) -> int:
        """Return the number of bytes after the head of the next message, which `unpacked` takes then.

        Raises:
            ForgedError: the signature of the length is wrong.
        """
        size, signature, _ = HEAD.unpack(head)
        self._count += 1
        self._check(signature, b"size", size)
        return int.from_bytes(size, "big")

    def unpacked(self, head: bytes, body: bytes) -> Tuple[Header, bytes]:
        """Return the header and the value of the message whose length was read.

        Raises:
            ForgedError: the signature is not that of these bytes in this place.
        """
        self._check(HEAD.unpack(head)[2], b"body", body)
        header, _, value = body.partition(b"\n")
        return json.loads(header), value

    def _check(self, signature: bytes, part: bytes, data: bytes) -> None:
        if not hmac.compare_digest(signature, self._signature(part, data)):
            raise ForgedError("the signature of a message is wrong")

    def _signature(self, part: bytes, data: bytes) -> bytes:
        return hmac.new(self._key, self._count.to_bytes(8, "big") + part + data, hashlib.sha256).digest()
