"""The store of a probe, through which the ranks meet and torch's groups find their peers.

It takes the place of torch's TCPStore, which has no password: whoever reaches its port can list, overwrite
and remove the keys of a group. This one answers only who knows the probe's secret (`store_messages`).
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import threading
import time
from typing import Dict, List, Optional, Tuple

from gpuwatch.probe.ranks.shared.store_messages import (
    ANSWER,
    ASK,
    HEAD,
    MAX_BYTES,
    MAX_UNKNOWN_BYTES,
    NONCE_BYTES,
    Header,
    MessageSigner,
)

_GREETING_S = 10.0
"""Seconds for the first message of a connection."""
_MAX_UNKNOWN = 2048
"""Maximum number of connections that have not shown the secret; beyond it the oldest is closed."""
_BACKLOG = 4096


def host(fd: int, secret: str) -> None:
    """Start the store in a thread, on a socket that already listens; it ends with the process.

    Raises:
        OSError: the socket cannot be used.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # every rank has a connection or two
    loop = asyncio.new_event_loop()
    store = StoreServer(secret)
    listening = socket.socket(fileno=os.dup(fd))
    loop.run_until_complete(asyncio.start_server(store.serve, sock=listening, backlog=_BACKLOG))
    threading.Thread(target=loop.run_forever, name="store", daemon=True).start()


class StoreServer:
    """Keys and values; a client can wait for a key that another one will write."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._values: Dict[str, bytes] = {}
        self._written: Dict[str, asyncio.Event] = {}
        """Key that somebody waits for -> set when it is written."""
        self._unknown: Dict[asyncio.StreamWriter, None] = {}
        """Connections that have not shown the secret, the oldest first."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection until its end, or until it sends what no rank sends."""
        if len(self._unknown) >= _MAX_UNKNOWN:
            oldest = next(iter(self._unknown))
            del self._unknown[oldest]
            oldest.close()
        self._unknown[writer] = None
        try:
            await self._converse(reader, writer)
        except Exception:  # noqa: S110 - whatever it sent, it costs its own connection alone
            pass
        finally:
            self._unknown.pop(writer, None)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonce = os.urandom(NONCE_BYTES)
        writer.write(nonce)
        nonces = await _read(reader, NONCE_BYTES, _GREETING_S) + nonce
        asked = MessageSigner(self._secret, nonces, ASK)
        answers = MessageSigner(self._secret, nonces, ANSWER)
        most = MAX_UNKNOWN_BYTES
        patience_s: Optional[float] = _GREETING_S
        while True:
            head = await _read(reader, HEAD.size, patience_s)
            size = asked.length(head)
            if size > most:
                return
            header, value = asked.unpacked(head, await _read(reader, size, patience_s))
            self._unknown.pop(writer, None)
            most, patience_s = MAX_BYTES, None
            writer.write(answers.packed(*await self._do(header, value)))
            await writer.drain()

    async def _do(self, header: Header, value: bytes) -> Tuple[Header, bytes]:
        keys: List[str] = header["keys"]
        do, key = header["do"], keys[0]
        if do == "set":
            self._write(key, value)
            return {}, b""
        if do == "add":
            count = int(self._values.get(key, b"0")) + int(value)
            self._write(key, b"%d" % count)
            return {}, b"%d" % count
        if do == "delete":
            return {"found": self._values.pop(key, None) is not None}, b""
        began = time.monotonic()
        found = await self._appeared(keys, float(header["seconds"]))
        waited_s = time.monotonic() - began
        return {"found": found, "waited_s": waited_s}, self._values.get(key, b"") if do == "get" else b""

    def _write(self, key: str, value: bytes) -> None:
        self._values[key] = value
        waited = self._written.pop(key, None)
        if waited is not None:
            waited.set()

    async def _appeared(self, keys: List[str], seconds: float) -> bool:
        """Return True as soon as all keys exist, False if they do not within this time."""
        loop = asyncio.get_event_loop()
        until = loop.time() + seconds
        for key in keys:
            while key not in self._values:
                written = self._written.setdefault(key, asyncio.Event())
                try:
                    await asyncio.wait_for(written.wait(), max(0.0, until - loop.time()))
                except asyncio.TimeoutError:
                    return False
        return True


async def _read(reader: asyncio.StreamReader, size: int, patience_s: Optional[float]) -> bytes:
    return await asyncio.wait_for(reader.readexactly(size), patience_s)
