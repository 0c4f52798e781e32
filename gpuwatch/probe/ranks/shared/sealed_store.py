"""Protects the store of the probe, to whose port anyone may connect: hidden keys and signed values.

torch's TCPStore has no password. A secret, which is sent over the connections to the launchers, is the prefix
of all keys, and every value has a signature (HMAC-SHA256) over its key and text.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta
from typing import List

from gpuwatch.probe.ranks.shared.torch_types import Store

TAMPERED = "the store was tampered with"


class StoreLostError(RuntimeError):
    """Raised if the store does not answer: its node, or the connection to it, is gone."""


class StoreTamperedError(StoreLostError):
    """Raised if someone else wrote to the store: nothing in it is evidence about a rank or node."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{TAMPERED}: {what}; nothing is known of any rank or node")


class SealedStore:
    """A store with hidden keys and signed values, for the ranks to meet."""

    def __init__(self, store: Store, secret: str) -> None:
        self.raw = store
        """The store for torch's groups."""
        self._secret = secret.encode()
        self._prefix = self._sign("prefix", b"")[:32]

    def group(self, name: str) -> str:
        """Return the prefix for the keys of a torch group."""
        return f"{self._prefix}/group/{name}"

    def add(self, key: str, amount: int) -> int:
        """Add to a counter; return its new value."""
        return int(self.raw.add(f"{self._prefix}/{key}", amount))

    def wait(self, keys: List[str], patience: timedelta) -> None:
        """Wait until all keys exist; raises what the store raises if they do not in time."""
        self.raw.wait([f"{self._prefix}/{key}" for key in keys], patience)

    def set(self, key: str, text: str) -> None:
        """Write a value with its signature."""
        self.raw.set(f"{self._prefix}/{key}", f"{self._sign(key, text.encode())} {text}")

    def get(self, key: str) -> str:
        """Return the value of an existing key.

        Raises:
            StoreTamperedError: no rank of this probe wrote it.
        """
        kept: bytes = self.raw.get(f"{self._prefix}/{key}")
        signature, _, text = kept.partition(b" ")
        if not hmac.compare_digest(signature, self._sign(key, text).encode()):
            raise StoreTamperedError(f"the value of {key} has no valid signature")
        return text.decode()

    def forget(self, key: str) -> None:
        """Remove a key."""
        self.raw.delete_key(f"{self._prefix}/{key}")

    def _sign(self, key: str, value: bytes) -> str:
        return hmac.new(self._secret, key.encode() + b"\0" + value, hashlib.sha256).hexdigest()
