"""The relay: distributes the stream of one session to several viewers, and forwards their requests."""

from __future__ import annotations

import socket
from collections.abc import Callable

import msgspec
import zstandard
from msgspec.structs import replace

from gpuwatch.hosts.plan import Plan
from gpuwatch.link.recording.tee import MICRO
from gpuwatch.link.recording.writer import recorded_plan
from gpuwatch.link.relay.messages import FromViewer, Opening, ViewerChange, ViewerRequest
from gpuwatch.session.relay.requests import (
    STREAMING,
    bounded_request,
    is_allowed,
    read_request,
    refusal,
)
from gpuwatch.session.relay.viewer_channel import ViewerChannel
from gpuwatch.session.session import Session
from gpuwatch.wire import AnyRequest, Cancel, encode

FLUSH_S = 0.25
"""Longest delay in seconds before a viewer receives a node's report."""
READ_ONLY = "this view is read-only"
TOO_MANY = "too many requests of this view; wait a second"
NOT_CONNECTED = "the node is not connected, or its agent does not support this request"


class ViewerRelay:
    """Sends a session's stream to viewers, and handles their requests.

    Call `exchange` after every poll of the session, from the same thread.
    """

    def __init__(self, session: Session, *, changes: bool = False) -> None:
        """Create the relay of a session, before `session.start` is called.

        `changes`: viewers may acknowledge, silence, note and reconnect.
        """
        self._session = session
        self._changes = changes
        self._tee = session.keep_stream()
        self._viewers: dict[ViewerChannel, Callable[[], None]] = {}
        """Viewer -> function that ends its part of the stream."""
        self._streaming: set[tuple[ViewerChannel, str, int]] = set()
        """Viewer, node and session request number of each tail or search."""
        self._flushed_at = 0.0
        self._compressor = zstandard.ZstdCompressor()

    @property
    def viewers(self) -> int:
        """Number of viewers."""
        return len(self._viewers)

    def add_viewer(self) -> socket.socket:
        """Add a viewer; return the socket that its process passes to `RelayConnection`."""
        ours, theirs = socket.socketpair()
        nodes = {number: name for name, number in self._tee.nodes.items()}
        plan = msgspec.json.encode(shared_plan(self._session.plan))
        opening = Opening(plan, nodes, self._tee.micros(0.0) / MICRO, self._changes)
        channel = ViewerChannel(ours, opening)
        self._attach(channel)
        return theirs

    def _attach(self, channel: ViewerChannel) -> None:
        """Start or restart a viewer's stream, with the most recent past."""
        self._viewers[channel] = self._tee.attach(channel)
        channel.begin(self._tee.ring())

    def exchange(self) -> None:
        """Send pending data, and handle the viewers' requests."""
        now = self._session.clock.monotonic()
        if self._viewers and now - self._flushed_at >= FLUSH_S:
            self._flushed_at = now
            self._tee.flush(now)
        for channel in list(self._viewers):
            for message in channel.exchange(now):
                self._take(channel, message, now)
            if channel.closed:
                self._remove(channel)
            elif channel.is_behind and channel.is_drained:
                self._viewers.pop(channel)()
                self._attach(channel)

    def close(self) -> None:
        """Disconnect all viewers."""
        for channel in list(self._viewers):
            channel.close()
            self._remove(channel)

    def _remove(self, channel: ViewerChannel) -> None:
        self._viewers.pop(channel)()
        for each in [one for one in self._streaming if one[0] is channel]:
            self._streaming.discard(each)
            self._cancel(each[1], each[2])

    def _take(self, channel: ViewerChannel, message: FromViewer, now: float) -> None:
        if isinstance(message, ViewerChange):
            if self._changes:
                self._change(message)
            return
        request = read_request(message.body)
        if request is None or message.node not in self._tee.nodes:
            return
        if isinstance(request, Cancel):
            self._cancel_of(channel, message.node, request.of)
        elif not is_allowed(request, changes=self._changes):
            self._refuse(channel, message, request, READ_ONLY)
        elif not channel.budget.spend(1.0, now):
            self._refuse(channel, message, request, TOO_MANY)
        else:
            self._forward(channel, message, request)

    def _forward(self, channel: ViewerChannel, message: ViewerRequest, request: AnyRequest) -> None:
        bounded = bounded_request(request, message.node, self._session.fleet)
        number = None if bounded is None else self._session.forward(message.node, bounded)
        if number is None:
            self._refuse(channel, message, request, NOT_CONNECTED)
            return
        dropped = channel.note_request(message.node, number, request.id)
        if dropped is not None and (channel, *dropped) in self._streaming:
            self._streaming.discard((channel, *dropped))
            self._cancel(*dropped)
        if isinstance(request, STREAMING):
            self._streaming.add((channel, message.node, number))

    def _refuse(
        self, channel: ViewerChannel, message: ViewerRequest, request: AnyRequest, reason: str
    ) -> None:
        data = self._compressor.compress(encode(refusal(request, reason)))
        channel.answer(message.node, request.id, data)

    def _cancel_of(self, channel: ViewerChannel, node: str, own: int) -> None:
        number = channel.number_of(node, own)
        if number is not None:
            channel.numbers.pop((node, number), None)
            self._streaming.discard((channel, node, number))
            self._cancel(node, number)

    def _cancel(self, node: str, number: int) -> None:
        self._session.forward(node, Cancel(id=0, of=number))

    def _change(self, change: ViewerChange) -> None:
        session, node, gpu, rank = self._session, change.node, change.gpu, change.rank
        match change.what:
            case "acknowledge":
                session.acknowledge(change.name)
            case "unacknowledge":
                session.unacknowledge(change.name)
            case "silence":
                session.silence(change.name, node=node, gpu=gpu, rank=rank)
            case "unsilence":
                session.unsilence(change.name, node=node, gpu=gpu, rank=rank)
            case "note":
                session.note(change.name, change.text)
            case "retry":
                session.retry(change.name)


def shared_plan(plan: Plan) -> Plan:
    """Return the plan without connection settings; the user's own rules stay, as screens explain them."""
    return replace(recorded_plan(plan), rules=plan.rules)
