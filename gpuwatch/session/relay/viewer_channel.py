"""The relay's end of the connection to one viewer: bounded output, and the viewer's requests."""

from __future__ import annotations

import contextlib
import socket
from collections import OrderedDict, deque
from collections.abc import Iterable

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.link.recording.tee import AnswerItem, DictionaryItem, Item, KeyFrame, RecordBlock, size_of
from gpuwatch.link.relay.messages import (
    MAX_REQUEST_BYTES,
    Answer,
    FromViewer,
    Opening,
    Packed,
    PacketReader,
    RelayError,
    from_viewer,
    packet,
)
from gpuwatch.link.stream.limits import TokenBucket

MAX_PENDING_BYTES = 64 << 20
"""Most bytes that wait for a viewer that does not read; beyond that, it restarts from a key frame."""
MAX_OPEN_REQUESTS = 2_000
"""Most open requests of one viewer; the oldest is dropped."""
REQUESTS_PER_S, REQUESTS_AT_ONCE = 50.0, 500.0
"""Requests that are forwarded; further ones are refused."""
MESSAGES_PER_S, MESSAGES_AT_ONCE = 200.0, 2_000.0
"""Messages of any kind; a viewer that sends more is disconnected."""
PAST_BYTES = 2 << 20
"""Compressed bytes of past data that a viewer starts with.

They last for a quarter of an hour of 8 nodes, or a minute of 100.
"""
READ_BYTES = 1 << 16
MAX_READS = 16
"""Most reads per call."""
SOCKET_BYTES = 4 << 20


class ViewerChannel:
    """The socket of one viewer, a sink of the session's tee.

    `exchange` moves bytes both ways without blocking.
    """

    def __init__(self, end: socket.socket, opening: Opening) -> None:
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        self._socket = end
        self._reader = PacketReader(MAX_REQUEST_BYTES)
        self._pending: deque[memoryview] = deque()
        self._pending_bytes = 0
        self._nodes = opening.nodes
        self._is_open = False
        """True after `begin` was called, which starts the stream."""
        self._begun = False
        """True once the stream has a key frame; blocks before it are useless."""
        self.is_behind = False
        """True if the viewer did not read for so long that parts of the stream were dropped."""
        self.closed = False
        self.budget = TokenBucket(REQUESTS_PER_S, REQUESTS_AT_ONCE)
        self._messages = TokenBucket(MESSAGES_PER_S, MESSAGES_AT_ONCE)
        self.numbers: OrderedDict[tuple[str, int], int] = OrderedDict()
        """(node, session request number) -> viewer's request number."""
        self._send(packet(opening))

    def begin(self, items: Iterable[Item]) -> None:
        """Start the stream at a key frame, chosen among `items`, which the session's tee still holds."""
        known, size, start = list(items), 0, None
        for index in reversed(range(len(known))):
            size += size_of(known[index])
            if size > PAST_BYTES and start is not None:
                break
            if isinstance(known[index], KeyFrame):
                start = index
        self._begun, self.is_behind, self._is_open = False, False, True
        for index, item in enumerate(known):
            if isinstance(item, DictionaryItem) or (start is not None and index >= start):
                self.put(item)

    def put(self, item: Item) -> None:
        """Queue an item of the stream for the viewer; do nothing if the viewer is behind, or before `begin`.

        Of the key frames only the first is queued, blocks only after it, and of the answers only those to the
        viewer's own requests.
        """
        if self.is_behind or not self._is_open:
            return
        match item:
            case DictionaryItem():
                self._send(packet(Packed("dictionary", item.id, item.data)))
            case KeyFrame() if not self._begun:
                self._begun = True
                self._send(packet(Packed("key", item.at, item.data)))
            case RecordBlock() if self._begun:
                self._send(packet(Packed("block", item.first, item.data)))
            case AnswerItem():
                node = self._nodes.get(item.node, "")
                number = self.numbers.get((node, item.number))
                if number is not None:
                    self.answer(node, number, item.data)
            case _:
                pass

    def answer(self, node: str, number: int, data: bytes) -> None:
        """Queue a (compressed) frame that answers the viewer's request of this number."""
        self._send(packet(Answer(node, number, data)))

    def note_request(self, node: str, number: int, own: int) -> tuple[str, int] | None:
        """Record that the session's request `number` answers the viewer's request `own`.

        If too many are open, the oldest is dropped: return its node and number; else None.
        """
        self.numbers[node, number] = own
        return self.numbers.popitem(last=False)[0] if len(self.numbers) > MAX_OPEN_REQUESTS else None

    def number_of(self, node: str, own: int) -> int | None:
        """Return the session's number of the viewer's request `own`; None if it is no longer known."""
        found = (number for (at, number), each in reversed(self.numbers.items()) if (at, each) == (node, own))
        return next(found, None)

    @property
    def is_drained(self) -> bool:
        """True if nothing is queued."""
        return not self._pending

    def exchange(self, now: float) -> list[FromViewer]:
        """Send as much as the socket takes now; return what the viewer has sent.

        Errors close the channel, and more messages than a viewer may send. `now`: monotonic seconds.
        """
        try:
            self._flush()
            received = self._received()
        except (OSError, RelayError, *DECODE_ERRORS):
            self.close()
            return []
        if self._messages.spend(len(received), now):
            return received
        self.close()
        return []

    def close(self) -> None:
        """Close the socket; the viewer then exits."""
        self.closed = True
        self._pending.clear()
        with contextlib.suppress(OSError):
            self._socket.close()

    def _received(self) -> list[FromViewer]:
        bodies: list[bytes] = []
        for _ in range(MAX_READS):
            try:
                data = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                raise RelayError("the viewer is gone")
            bodies += self._reader.feed(data)
        return [from_viewer.decode(body) for body in bodies]

    def _send(self, data: bytes) -> None:
        if self._pending_bytes > MAX_PENDING_BYTES:
            self.is_behind = True
            return
        self._pending.append(memoryview(data))
        self._pending_bytes += len(data)

    def _flush(self) -> None:
        while self._pending:
            try:
                sent = self._socket.send(self._pending[0])
            except BlockingIOError:
                return
            self._pending_bytes -= sent
            if sent == len(self._pending[0]):
                self._pending.popleft()
            else:
                self._pending[0] = self._pending[0][sent:]
