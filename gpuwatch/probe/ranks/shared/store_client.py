"""A rank's access to the store of the probe, and to torch's groups in it."""

from __future__ import annotations

import os
import socket
import threading
import time
from datetime import timedelta
from typing import List, Optional, Tuple

from gpuwatch.probe.ranks.shared import words
from gpuwatch.probe.ranks.shared.store_messages import (
    ANSWER,
    ASK,
    HEAD,
    MAX_BYTES,
    NONCE_BYTES,
    ForgedError,
    Header,
    MessageSigner,
)
from gpuwatch.probe.ranks.shared.torch_types import Store, Torch

TAMPERED = "the store was tampered with"
DELAYED = "the answers of the store are delayed"
_DELAY_S, _USUAL_SHARE = 20.0, 0.25
"""Seconds of delay in all from which the store counts as lost, without this share of the time that passes.

A rank that waits for such answers alone is done after 27 s, before others give it up.
"""
_CONFIRM_S = 10.0
"""Seconds for a new connection to the store, which takes milliseconds."""
_AGAIN_S = 0.2
"""Seconds between attempts to connect."""


class StoreLostError(RuntimeError):
    """Raised if the store does not answer: its node, or the connection to it, is gone."""


class StoreTamperedError(StoreLostError):
    """Raised if someone else wrote to the store: nothing in it is evidence about a rank or node."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{TAMPERED}: {what}; nothing is known of any rank or node")


class StoreDelayedError(StoreLostError):
    """Raised if answers come, but too slowly: the rank is late for the others through no fault of its own."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"{DELAYED} by {words.seconds(seconds)}; nothing is known of any rank or node")


class Delays:
    """Adds up by how long answers were late on their way."""

    def __init__(self, now: float) -> None:
        self._sum_s, self._at = 0.0, now

    def add(self, seconds: float, now: float) -> bool:
        """Count the delay of an answer at `now` (monotonic seconds); return True if they are too many."""
        usual_s = _USUAL_SHARE * max(0.0, now - self._at)
        self._sum_s, self._at = max(0.0, self._sum_s - usual_s) + max(0.0, seconds), now
        return self._sum_s > _DELAY_S


class StoreClient:
    """The store, as one rank sees it; any thread may use it. Times are in seconds.

    Args:
        address: Where the store listens.
        port: Its port.
        secret: The secret of the probe.
        timeout_s: Seconds for an answer, beyond what the store waits.

    All methods raise StoreLostError if the store does not answer, and StoreTamperedError if somebody else
    does.
    """

    def __init__(self, address: str, port: int, secret: str, timeout_s: float) -> None:
        self._place, self._secret, self._timeout_s = (address, port), secret, timeout_s
        self._idle: List[_Connection] = []
        """Connections that no thread uses."""
        self._lock = threading.Lock()
        self._delays = Delays(time.monotonic())
        self._lost: Optional[StoreLostError] = None
        """Why what this rank misses may be the fault of the store's answers."""

    def confirm(self) -> None:
        """Raise the StoreTamperedError or StoreDelayedError of an earlier call, else connect once more.

        torch replaces the exceptions of a store by its own, and gives up while an answer is awaited.
        """
        if self._lost is not None:
            raise self._lost
        self._keep(self._connect(time.monotonic() + _CONFIRM_S))

    def reach(self, patience_s: float) -> None:
        """Connect for the first time; the store's node may be slower than ours to import torch."""
        self._keep(self._connect(time.monotonic() + patience_s))

    def set(self, key: str, value: bytes) -> None:
        """Write a value."""
        self._ask({"do": "set", "keys": [key]}, value)

    def get(self, key: str, seconds: float = 0.0) -> Optional[bytes]:
        """Return the value of a key as soon as it exists; None if it does not within this time."""
        answer, value = self._ask({"do": "get", "keys": [key], "seconds": seconds})
        return value if answer["found"] else None

    def wait(self, keys: List[str], seconds: float) -> bool:
        """Return True as soon as all keys exist; False if they do not within this time."""
        return not keys or bool(self._ask({"do": "wait", "keys": keys, "seconds": seconds})[0]["found"])

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, 0 at first; return its new value."""
        return int(self._ask({"do": "add", "keys": [key]}, b"%d" % amount)[1])

    def delete(self, key: str) -> bool:
        """Remove a key; return True if it existed."""
        return bool(self._ask({"do": "delete", "keys": [key]})[0]["found"])

    def close(self) -> None:
        """Close the connections that no thread uses."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    def _ask(self, header: Header, value: bytes = b"") -> Tuple[Header, bytes]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect(time.monotonic() + self._timeout_s)
        began, patience_s = time.monotonic(), float(header.get("seconds", 0.0)) + self._timeout_s
        try:
            answer = connection.ask(header, value, patience_s)
        except ForgedError as error:
            raise self._losing(StoreTamperedError(str(error))) from error
        except _DelayedError as error:
            raise self._losing(StoreDelayedError(patience_s)) from error
        except OSError as error:
            raise StoreLostError(self._unanswered(error)) from error
        self._keep(connection)
        now = time.monotonic()
        late_s = now - began - float(answer[0].get("waited_s", 0.0))
        with self._lock:
            too_late = self._delays.add(late_s, now)
        if too_late:
            raise self._losing(StoreDelayedError(late_s))
        return answer

    def _losing(self, error: StoreLostError) -> StoreLostError:
        self._lost = self._lost or error
        return error

    def _connect(self, until: float) -> "_Connection":
        while True:
            try:
                return _Connection(self._place, self._secret, max(until - time.monotonic(), _AGAIN_S))
            except ForgedError as error:
                raise self._losing(StoreTamperedError(str(error))) from error
            except OSError as error:
                if time.monotonic() + _AGAIN_S > until:
                    raise StoreLostError(self._unanswered(error)) from error
            time.sleep(_AGAIN_S)

    def _unanswered(self, error: OSError) -> str:
        address, port = self._place
        why = error.strerror or words.first_line(error)
        return f"the store of the probe at {address}:{port} does not answer: {why}"

    def _keep(self, connection: "_Connection") -> None:
        with self._lock:
            self._idle.append(connection)


class _DelayedError(OSError):
    """Raised if a part of an answer came in time, and the rest did not."""


class _Connection:
    """One connection to the store, for one question at a time; after an error it is closed.

    Raises:
        OSError: the store cannot be reached, or does not answer in time.
        ForgedError: somebody else answers.
    """

    def __init__(self, place: Tuple[str, int], secret: str, patience_s: float) -> None:
        until = time.monotonic() + patience_s
        self._socket = socket.create_connection(place, patience_s)
        try:
            nonce = os.urandom(NONCE_BYTES)
            self._socket.sendall(nonce)
            nonces = nonce + self._received(NONCE_BYTES, until)
        except OSError:
            self._socket.close()
            raise
        self._asked = MessageSigner(secret, nonces, ASK)
        self._answers = MessageSigner(secret, nonces, ANSWER)
        # A short one shows that both ends know the secret: until then the store takes no long one.
        self.ask({"do": "wait", "keys": [""], "seconds": 0.0}, b"", patience_s)

    def ask(self, header: Header, value: bytes, patience_s: float) -> Tuple[Header, bytes]:
        """Send a request and return (header, value) of the answer, which is whole within `patience_s`."""
        until = time.monotonic() + patience_s
        try:
            self._socket.settimeout(patience_s)
            self._socket.sendall(self._asked.packed(header, value))
            head = self._received(HEAD.size, until)
            size = min(self._answers.length(head), MAX_BYTES)
            return self._answers.unpacked(head, self._received(size, until, has_begun=True))
        except (OSError, ForgedError):
            self._socket.close()
            raise

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def _received(self, size: int, until: float, has_begun: bool = False) -> bytes:
        data = bytearray()
        while len(data) < size:
            left_s = until - time.monotonic()
            try:
                self._socket.settimeout(max(left_s, 0.001))
                piece = self._socket.recv(size - len(data))
            except socket.timeout as error:
                if data or has_begun:
                    raise _DelayedError("the rest of its answer does not come") from error
                raise
            if not piece:
                raise ConnectionResetError("it closed the connection")
            data += piece
        return bytes(data)


def torch_store(torch: Torch, client: StoreClient, timeout_s: float) -> Store:
    """Return the store for torch's groups; keep it as long as any of them, which do not.

    Args:
        torch: The module.
        client: The access to the store.
        timeout_s: Seconds for a key to appear, if torch does not say.
    """

    class RankStore(torch.distributed.Store):  # type: ignore[misc]  # torch's types are not imported
        """The methods that groups of gloo and NCCL call; torch 2.1 spells one of them otherwise."""

        def set(self, key: str, value: "bytes | str") -> None:
            client.set(f"group/{key}", value.encode() if isinstance(value, str) else value)

        def get(self, key: str) -> bytes:
            value = client.get(f"group/{key}", timeout_s)
            if value is None:
                raise RuntimeError(_late(timeout_s))
            return value

        def add(self, key: str, amount: int) -> int:
            return client.add(f"group/{key}", amount)

        def check(self, keys: List[str]) -> bool:
            return client.wait([f"group/{key}" for key in keys], 0.0)

        def wait(self, keys: List[str], timeout: Optional[timedelta] = None) -> None:
            seconds = timeout_s if timeout is None else timeout.total_seconds()
            if not client.wait([f"group/{key}" for key in keys], seconds):
                raise RuntimeError(_late(seconds))

        def delete_key(self, key: str) -> bool:
            return client.delete(f"group/{key}")

        deleteKey = delete_key  # noqa: N815 - the name that torch 2.1 looks for

        def clone(self) -> "RankStore":
            return self

    return RankStore()


def _late(seconds: float) -> str:
    return f"another rank did not write its part within {words.seconds(seconds)}"
