"""Signs the messages between the ranks and the store of a probe, to whose port anyone may connect.

A secret, which is sent over the connections to the launchers, and a nonce of each end give a key for each
direction of a connection; every message has a signature (HMAC-SHA256) over its number and its bytes. Without
the secret nobody can read or write a value, nor alter, repeat or leave out a message without its being seen.
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
HEAD = struct.Struct(">I32s")
"""The number of bytes that follow, and their signature."""
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
        """Return the next message."""
        body = json.dumps(header).encode() + b"\n" + value
        return HEAD.pack(len(body), self._signature(body)) + body

    def unpacked(self, signature: bytes, body: bytes) -> Tuple[Header, bytes]:
        """Return the header and the value of the next message.

        Raises:
            ForgedError: the signature is not that of these bytes in this place.
        """
        if not hmac.compare_digest(signature, self._signature(body)):
            raise ForgedError("the signature of a message is wrong")
        header, _, value = body.partition(b"\n")
        return json.loads(header), value

    def _signature(self, body: bytes) -> bytes:
        self._count += 1
        return hmac.new(self._key, self._count.to_bytes(8, "big") + body, hashlib.sha256).digest()
