"""An ssh transport that closes a connection whose peer exceeds bounds; paramiko has no such bounds.

Until the host key is verified, the peer can be anyone on the network.
"""

from __future__ import annotations

import time
from typing import Any

import paramiko
from paramiko.common import (
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EXTENDED_DATA,
    MSG_DEBUG,
    MSG_EXT_INFO,
    MSG_IGNORE,
    MSG_KEXINIT,
    MSG_USERAUTH_INFO_REQUEST,
)
from paramiko.packet import Packetizer

from gpuwatch.link.stream.limits import TokenBucket
from gpuwatch.plain import plain

MAX_PACKET_BYTES = 128 * 1024
"""RFC 4253 asks for 35,000; a channel of ours takes 32,768 of data at a time."""
MAX_GREETING_BYTES = 64 * 1024
"""Most bytes that a server may send up to the end of its version line."""
NUMBER_BYTES = 8
MAX_ENTRIES = 256
"""Most extensions or prompts in one packet."""
WINDOWS = 2
"""Maximum unread data of a channel, in windows: one for output, one for errors."""
READ_AHEAD_BYTES = 4096
"""Most packets are shorter; a larger buffer for each read leaves holes in the memory of many threads."""
KEY_EXCHANGES, PER_S = 20, 600.0
"""Maximum key exchanges in `PER_S` seconds; paramiko starts one every 512 MiB."""
PACKETS_PER_S, PACKETS_BURST = 50.0, 1_000.0
"""Packets of a connection, and of each of its open channels in addition, that are read without a pause.

An agent sends 2 to 5 a second.
"""
COMMON_PER_S, COMMON_BURST = 4_000.0, 20_000.0
"""Further packets that are read without a pause, of all connections together.

A packet takes 10 to 30 us of CPU time, so that floods of many peers leave the interpreter to the others.
128 MiB/s of data in packets of 32 KiB stay below.
"""
PAUSE_S = 0.1
MAX_TEXT = 300
"""Most characters of a peer's text that are shown."""
COMMON = TokenBucket(COMMON_PER_S, COMMON_BURST)
"""The packets that the connections of this process may bring beyond their own."""


class BoundError(paramiko.SSHException):
    """Raised in the transport's thread, which ends, if the peer exceeds a bound."""


class BoundedTransport(paramiko.Transport):
    """A transport whose packets are of a bounded size and number."""

    def __init__(self, sock: Any, packetizer: type[BoundedPacketizer] | None = None) -> None:  # noqa: ANN401 - a socket or channel
        super().__init__(sock)
        self.packetizer = (packetizer or BoundedPacketizer)(sock, self)
        self.packetizer.set_log(self.logger)

    def get_exception(self) -> Exception | None:
        """Return the error that ended the transport, as a kind that paramiko documents; None: no error.

        Unexpected packets raise errors of other kinds in its thread.
        """
        error: Exception | None = super().get_exception()
        if error is None or isinstance(error, paramiko.SSHException | EOFError | OSError):
            return error
        return BoundError(f"it sent an unexpected packet ({type(error).__name__})")


class ReadAheadSocket:
    """The part of a socket that paramiko's packetizer uses; reads a whole packet with one system call.

    The packetizer itself reads each packet in two or three pieces. Nothing else reads from the socket.
    """

    def __init__(self, sock: Any) -> None:  # noqa: ANN401 - a socket or channel
        self._sock = sock
        self._ahead = b""

    @property
    def waiting(self) -> bytes:
        """Return the bytes that were received and not read yet."""
        return self._ahead

    def add(self, data: bytes) -> None:
        """Append bytes that were received from the socket elsewhere."""
        self._ahead += data

    def recv(self, limit: int) -> bytes:
        """Return up to `limit` bytes from the buffer or the socket; b"" at the end of the stream."""
        ahead: bytes = self._ahead or self._sock.recv(max(limit, READ_AHEAD_BYTES))
        self._ahead = ahead[limit:]
        return ahead[:limit]

    def send(self, data: bytes) -> int:
        """Send bytes as the socket's `send` does; return how many were sent."""
        sent: int = self._sock.send(data)
        return sent

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


class _WholeMessage(paramiko.Message):
    def get_bytes(self, n: int) -> bytes:
        """Return the next `n` bytes of the packet; up to 8 missing ones are 0.

        Raises:
            BoundError: the packet is too short; paramiko would add up to 1 MiB of zeros.
        """
        if n <= NUMBER_BYTES:
            return super().get_bytes(n)
        data = self.packet.read(n)
        if len(data) < n:
            raise BoundError("it sent a truncated packet")
        return data


class BoundedPacketizer(Packetizer):
    """Reads the packets of a transport, and ends it if one exceeds a bound."""

    def __init__(self, sock: Any, transport: paramiko.Transport) -> None:  # noqa: ANN401 - a socket or channel
        self.ahead = ReadAheadSocket(sock)
        super().__init__(self.ahead)  # type: ignore[arg-type] # what it needs of one
        self._transport: Any = transport
        self._greeting = 0
        self._exchanges: list[float] = []
        self._packets = TokenBucket(PACKETS_PER_S, PACKETS_BURST)
        self.pauses = 0
        """Pauses so far; what the peer sends meanwhile waits in its own buffers."""

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Return the next `n` bytes of the connection.

        Raises:
            BoundError: `n` is out of bounds.
        """
        if not 0 <= n <= MAX_PACKET_BYTES:
            raise BoundError(f"it sent a packet of {n:,} bytes")
        return super().read_all(n, check_rekey)

    def _read_timeout(self, timeout: float) -> bytes:
        data: bytes = super()._read_timeout(timeout)  # type: ignore[misc]  # not in the stubs
        self._greeting += len(data)
        if self._greeting > MAX_GREETING_BYTES:
            raise BoundError("it sent too much text before its version")
        return data

    def read_message(self) -> tuple[int, paramiko.Message]:
        """Return the next packet's type and content; pauses if the peer sends too many.

        Raises:
            BoundError: the packet is too large, has too many entries, or exceeds the channel's window.
        """
        if not self.within_pace():
            self.pauses += 1
            time.sleep(PAUSE_S)
        return self.next_message()

    def next_message(self) -> tuple[int, paramiko.Message]:
        """Return the next packet's type and content, at any pace.

        Raises:
            BoundError: As `read_message` does.
        """
        kind, message = super().read_message()
        message.__class__ = _WholeMessage
        if kind == MSG_DEBUG:
            return MSG_IGNORE, message  # paramiko would format its text byte by byte
        if kind in (MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA):
            self._check_window(message)
        elif kind in (MSG_EXT_INFO, MSG_USERAUTH_INFO_REQUEST):
            _check_entries(kind, message)
        elif kind == MSG_KEXINIT:
            self._check_exchanges()
        return kind, message

    def within_pace(self) -> bool:
        """Count a packet; return False if the peer sends more than the connection takes without a pause."""
        share = 1.0 / (1 + len(self._transport._channels))  # noqa: SLF001 - no other way to it
        now = time.monotonic()
        return self._packets.spend(share, now) or COMMON.spend(1.0, now)

    def _check_window(self, message: paramiko.Message) -> None:
        channel = self._transport._channels.get(message.get_int())  # noqa: SLF001 - no other way to it
        message.rewind()
        if channel is None:
            return
        waiting = len(channel.in_buffer) + len(channel.in_stderr_buffer)
        if waiting > WINDOWS * self._transport.default_window_size:
            raise BoundError("it sent more than the channel's window")

    def _check_exchanges(self) -> None:
        now = time.monotonic()
        self._exchanges = [at for at in self._exchanges if now - at < PER_S] + [now]
        if len(self._exchanges) > KEY_EXCHANGES:
            raise BoundError("it exchanges keys too often")


def shown(text: str) -> str:
    """Return text of the peer cut to `MAX_TEXT` characters and sanitized."""
    return plain(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}...")


def _check_entries(kind: int, message: paramiko.Message) -> None:
    if kind == MSG_USERAUTH_INFO_REQUEST:
        for _ in range(3):
            message.get_string()
    entries = message.get_int()
    message.rewind()
    if entries > MAX_ENTRIES:
        raise BoundError(f"it sent {entries:,} entries in one packet")
