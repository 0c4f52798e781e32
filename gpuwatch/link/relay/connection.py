"""A viewer's end of the socket: a thread reads, and the viewer's session gets the messages."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.link.relay.messages import (
    FromViewer,
    Opening,
    PacketReader,
    RelayError,
    ToViewer,
    ViewerChange,
    ViewerRequest,
    packet,
    to_viewer,
)
from gpuwatch.wire import AnyRequest
from gpuwatch.wire.codec import encode_request

READ_BYTES = 1 << 20
OPENING_S = 20.0
"""Seconds to wait for the opening message, which is sent before the viewer's process starts."""


class RelayConnection:
    """A viewer's connection to the relay. It reads until the relay closes it; then `ended` is set."""

    def __init__(self, end: socket.socket) -> None:
        """Wait for the opening message, then start a thread that reads.

        Raises:
            RelayError: the other side is gone, or is no relay.
        """
        self._socket = end
        self._reader = PacketReader()
        self._arrived: deque[ToViewer] = deque()
        self._sending = threading.Lock()
        self.ended = threading.Event()
        end.settimeout(OPENING_S)
        while not self._arrived:
            self._read()
        first = self._arrived.popleft()
        if not isinstance(first, Opening):
            raise RelayError("the first message is not an opening message")
        self.opening = first
        end.settimeout(None)
        self._thread = threading.Thread(target=self._follow, name="relay", daemon=True)
        self._thread.start()

    def next(self) -> ToViewer | None:
        """Remove the oldest received message and return it; None if there is none."""
        try:
            return self._arrived.popleft()
        except IndexError:
            return None

    @property
    def waiting(self) -> int:
        """Return the number of received messages that were not taken yet."""
        return len(self._arrived)

    def send(self, message: FromViewer) -> bool:
        """Send a message to the relay; return False if the relay is gone."""
        try:
            with self._sending:
                self._socket.sendall(packet(message))
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the socket, which ends the thread."""
        self.ended.set()
        with contextlib.suppress(OSError):  # it is closed already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _follow(self) -> None:
        try:
            while not self.ended.is_set():
                self._read()
        except RelayError:
            pass  # `ended` reports it
        finally:
            self.ended.set()

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except OSError as error:
            raise RelayError(str(error)) from error
        if not data:
            raise RelayError("the relay has ended")
        try:
            self._arrived.extend(to_viewer.decode(body) for body in self._reader.feed(data))
        except DECODE_ERRORS as error:
            raise RelayError(str(error)) from error


class RelayLink:
    """A node's link in a viewer. Frames come in the stream of all nodes, which the session reads."""

    def __init__(self, node: str, connection: RelayConnection) -> None:
        self.node = node
        self._connection = connection

    def start(self) -> None:
        """Do nothing: the stream is running."""

    def send(self, request: AnyRequest) -> bool:
        """Send a request to the relay; if the relay cannot answer it, an error comes back.

        Return False if the relay has ended.
        """
        return self._connection.send(ViewerRequest(self.node, encode_request(request)))

    def retry(self) -> None:
        """Ask the relay to reconnect the node now."""
        self._connection.send(ViewerChange("retry", self.node))

    def hang_up(self, reason: str) -> None:
        """Do nothing: the connection to the node belongs to the relay."""

    def close(self) -> None:
        """Do nothing: the session closes the connection."""
