"""A transport whose packets a shared thread reads while they only bring data.

paramiko reads a connection in a thread of its own. After the login this thread ends and leaves the socket to
`SharedReader`, which passes the data of channels to their `DirectPipe`. For every other packet, for the end
of the connection and for errors, paramiko's loop runs again in a new thread until that packet is handled.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import paramiko
from paramiko import transport as paramikos
from paramiko.common import (
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EXTENDED_DATA,
    MSG_CHANNEL_WINDOW_ADJUST,
    MSG_IGNORE,
)

from gpuwatch.link.ssh.sockets.direct_pipe import DirectPipe
from gpuwatch.link.ssh.transport.bounded_transport import (
    MAX_PACKET_BYTES,
    BoundedPacketizer,
    BoundedTransport,
)
from gpuwatch.link.ssh.transport.shared_reader import SHARED

ACTIVE: list[paramiko.Transport] = vars(paramikos)["_active_threads"]
"""paramiko's list of running transports."""
LENGTH_BYTES = 4
DATA = frozenset((MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA, MSG_CHANNEL_WINDOW_ADJUST))
"""Packets that are handled without blocking and without an answer."""
OWN_THREAD_S = 10.0
"""Seconds for which a peer that sends too many packets is read in a thread of its own, which pauses."""


class _LeftToReaderError(BaseException):
    """Raised to end paramiko's loop without ending the connection; its handlers catch `Exception` only."""


class SharedTransport(BoundedTransport):
    """A transport that leaves its socket to the shared reader once `share` was called."""

    packetizer: _SharedPacketizer
    active: bool
    _channels: Mapping[int, paramiko.Channel | None]
    _channel_handler_table: Mapping[int, Callable[[paramiko.Channel, paramiko.Message], None]]

    def __init__(self, sock: Any) -> None:  # noqa: ANN401 - a socket or channel
        self.resuming = False
        """True until paramiko's loop has passed the steps of a new connection."""
        super().__init__(sock, _SharedPacketizer)

    def share(self) -> None:
        """Leave the socket to the shared reader from the next packet on.

        No effect if the stream is no socket, as behind a jump host.
        """
        self.packetizer.shares = isinstance(self.sock, socket.socket)

    def run(self) -> None:
        """Read the connection until it ends or the shared reader can read it."""
        try:
            super().run()
        except _LeftToReaderError:
            with contextlib.suppress(ValueError):
                ACTIVE.remove(self)
            SHARED.adopt(self)

    def resume(self) -> None:
        """Run paramiko's loop in a new thread."""
        self.resuming = True
        self.packetizer.handled = 0
        threading.Thread(target=self.run, name=self.name, daemon=True).start()

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self.sock.fileno()

    def take(self, data: bytes) -> bool:
        """Process received bytes; return False if paramiko's loop must handle the next packet."""
        reader = self.packetizer
        reader.ahead.add(data)
        try:
            while reader.holds_packet():
                if not reader.within_pace():
                    reader.own_until = time.monotonic() + OWN_THREAD_S
                    return False
                kind, message = reader.next_message()
                if not self._handle(kind, message):
                    reader.returned = kind, message
                    return False
        except Exception as error:  # paramiko's loop ends with it
            reader.returned = error
            return False
        return self.active and not reader.need_rekey()

    def _handle(self, kind: int, message: paramiko.Message) -> bool:
        """Pass the data of a packet to its channel; return False if paramiko's loop must handle it."""
        if kind == MSG_IGNORE:
            return True
        if kind not in DATA:
            return False
        channel = self._channels.get(message.get_int())
        if channel is None or not isinstance(channel.in_buffer, DirectPipe):
            message.rewind()
            return False
        self._channel_handler_table[kind](channel, message)
        return True

    def _check_banner(self) -> None:
        if not self.resuming:
            super()._check_banner()  # type: ignore[misc]  # not in the stubs

    def _send_kex_init(self) -> None:
        if not self.resuming:
            super()._send_kex_init()  # type: ignore[misc]  # not in the stubs

    def _expect_packet(self, *kinds: int) -> None:
        if self.resuming:
            self.resuming = False  # the last step of a new connection
        else:
            super()._expect_packet(*kinds)  # type: ignore[misc]  # not in the stubs


class _SharedPacketizer(BoundedPacketizer):
    shares = False
    """True if the shared reader may read the connection."""
    handled = 0
    """Packets that this run of paramiko's loop has read."""
    own_until = 0.0
    returned: tuple[int, paramiko.Message] | Exception | None = None
    """What the shared reader read, and paramiko's loop must handle."""

    def read_message(self) -> tuple[int, paramiko.Message]:
        """Return the next packet's type and content; leave the connection to the shared reader if possible.

        Raises:
            BoundError: As `BoundedPacketizer.read_message` does.
        """
        found, self.returned = self.returned, None
        if isinstance(found, Exception):
            raise found
        if found is None and self.shares and self.handled and self._is_quiet():
            raise _LeftToReaderError
        self.handled += 1
        return found or super().read_message()

    def holds_packet(self) -> bool:
        """Return True if the next packet has been received whole, or breaks the bounds."""
        ahead = self.ahead.waiting
        if len(ahead) < LENGTH_BYTES:
            return False
        size: int = struct.unpack_from(">I", ahead)[0]
        whole = LENGTH_BYTES + size + self._of_packetizer("mac_size_in")
        return size > MAX_PACKET_BYTES or len(ahead) >= whole

    def write_all(self, out: Any) -> None:  # noqa: ANN401 - a buffer
        """Send bytes; a connection that is resumed has sent its version already."""
        if not (self._transport.resuming and out[:4] == b"SSH-"):
            super().write_all(out)

    def start_handshake(self, timeout: float) -> None:
        """Limit the time of the key exchange; a connection that is resumed has finished it."""
        if not self._transport.resuming:
            super().start_handshake(timeout)

    def _is_quiet(self) -> bool:
        """Return True if the shared reader can read the next packets.

        Their length is then readable, no key exchange is due or runs, and the time for which this connection
        needs a thread of its own is over.
        """
        transport = self._transport
        readable = self._of_packetizer("aead_in") or self._of_packetizer("etm_in")
        waits = transport._expected_packet  # noqa: SLF001 - no other way to it
        between = not (transport.in_kex or waits or self.need_rekey())
        paced = time.monotonic() >= self.own_until
        return readable and between and paced and not self._of_packetizer("remainder")

    def _of_packetizer(self, name: str) -> Any:  # noqa: ANN401 - of several types
        return getattr(self, f"_Packetizer__{name}")  # paramiko keeps them to itself
