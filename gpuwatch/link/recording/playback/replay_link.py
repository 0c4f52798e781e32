"""The link of a node in a recording: answers a request with the recorded answer to an equal one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from msgspec import structs

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.recording.playback.player import Player
from gpuwatch.link.recording.tee import MICRO
from gpuwatch.link.stream.inbox import Arrival, Inbox
from gpuwatch.wire import (
    NOT_RECORDED,
    AnyFrame,
    AnyRequest,
    FrameError,
    Lines,
    ReadLines,
    Reply,
    Search,
    Tail,
    decode,
)
from gpuwatch.wire.codec import encode_request

SAME = {
    "stacks": ("pids",),
    "ras": (),
    "dumps": ("pids",),
    "dump_files": ("pids",),
    "dump_piece": ("prefix", "name", "offset"),
    "particulars": (),
    "tail": ("file",),
    "read": ("file", "offset", "time", "before", "after"),
    "search": ("pattern", "files", "ignore_case"),
}
"""Kind of request -> fields that must be equal for its answer to apply."""
SOON_S = 1.0
"""Requests this close together (seconds) are the same."""


class ReplayLink:
    """The link of a recorded node. Its records come from the player; requests are answered at once."""

    def __init__(
        self,
        spec: NodeSpec,
        number: int,
        player: Player,
        inbox: Inbox,
        other_lines: Callable[[str, AnyRequest], Lines | None],
    ) -> None:
        """Create the link of a recorded node.

        `other_lines`: returns further recorded lines of a node's file for a request of lines, or None.
        """
        self.node = spec.name
        self._number = number
        self._player = player
        self._inbox = inbox
        self._other_lines = other_lines

    def start(self) -> None:
        """Do nothing: the states of the real link are in the recording."""

    def retry(self) -> None:
        """Do nothing: there is no node."""

    def hang_up(self, reason: str) -> None:
        """Do nothing: there is no connection."""

    def close(self) -> None:
        """Do nothing: the session closes the recording."""

    def send(self, request: AnyRequest) -> bool:
        """Deliver the recorded answer to an equal earlier request, else an error; return True.

        Nothing is delivered for a kind of request that is not in `SAME`.
        """
        kind = str(request.__struct_config__.tag)
        if kind not in SAME:
            return True
        found = self._answers(kind, request)
        for frame in found or [self._other_lines(self.node, request) or refusal(request)]:
            self._inbox.put(Arrival(self.node, self._player.clock.monotonic(), frame))
        return True

    def _answers(self, kind: str, request: AnyRequest) -> list[AnyFrame]:
        recording, until = self._player.recording, self._player.position
        wanted = fields_of(encode_request(request), SAME[kind])
        for at, number, body in recording.requests(self._number, kind, until + round(SOON_S * MICRO)):
            if fields_of(body, SAME[kind]) != wanted:
                continue
            frames = list(decoded(recording.answers(self._number, number, at), request.id))
            if frames:
                return frames
        return []


def fields_of(body: bytes, names: Iterable[str]) -> dict[str, object]:
    """Return the values of named fields of an encoded request; empty if it is not a JSON object."""
    try:
        values = json.loads(body)
    except ValueError:
        return {}
    return {name: values.get(name) for name in names} if isinstance(values, dict) else {}


def decoded(answers: Iterable[tuple[int, bytes]], number: int) -> Iterable[AnyFrame]:
    """Yield the frames of recorded answers with the request number `number`; damaged ones are left out."""
    for _, body in answers:
        try:
            frame = decode(body)
        except FrameError:
            continue
        if isinstance(frame, Lines | Reply):
            yield structs.replace(frame, id=number)


def refusal(request: AnyRequest) -> AnyFrame:
    """Return the answer to a request that is not in the recording: an error."""
    if isinstance(request, Tail | ReadLines | Search):
        return Lines(t=0.0, seq=0, id=request.id, done=True, error=NOT_RECORDED)
    return Reply(t=0.0, seq=0, id=request.id, error=NOT_RECORDED)
