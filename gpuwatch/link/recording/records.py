"""The records in a recording's blocks: one line each, `MICROSECONDS NODE KIND JSON`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.link.stream.inbox import ClockReading, Content, LinkStatus, Refused
from gpuwatch.wire import MAX_LINE_BYTES, AnyFrame, FrameError, decode
from gpuwatch.wire.codec import decode_strictly

SESSION = 0
"""Node number of records about the whole session."""
BOOK = "book"
"""Kind of records of alerts and incidents."""

_json = msgspec.json.Encoder()
_STATES: dict[str, type[LinkStatus | ClockReading | Refused]] = {
    "link": LinkStatus,
    "clock": ClockReading,
    "refused": Refused,
}
_STATE_NAMES: dict[type[Content], str] = {what: name for name, what in _STATES.items()}
_KINDS = {what: str(what.__struct_config__.tag) for what in get_args(AnyFrame)}
"""Frame -> its kind."""
_decoders = {name: msgspec.json.Decoder(what) for name, what in _STATES.items()}


class StreamRecord(Struct, frozen=True, gc=False):
    """One record of a recording, with its content undecoded."""

    at: int
    """Time of the record in microseconds of recorded time."""
    node: int
    kind: str
    body: bytes

    def line(self, since: int) -> bytes:
        """Return the record as a line of a block that begins at `since` (microseconds of recorded time)."""
        return b"%d %d %s %s\n" % (self.at - since, self.node, self.kind.encode(), self.body)


_HEAD = re.compile(rb"(-?[0-9]{1,17}) ([0-9]{1,9}) ([!-~]{1,40}) ")
MAX_RECORDS = 500_000
"""Most records per block; one of 1,000 nodes has about 10,000."""


MAX_ODD = 1_000
"""Lines of a block that are no records; behind them nothing of it is read."""


def records_of(data: bytes, since: int, skipped: Callable[[], None]) -> Iterator[StreamRecord]:
    """Yield the records of a decompressed block that begins at `since`.

    `skipped` is called for each invalid line, and once for what follows `MAX_RECORDS` or `MAX_ODD`.
    """
    start, odd = 0, 0
    for _ in range(MAX_RECORDS):
        if start >= len(data):
            return
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        if found := _HEAD.match(data, start, end):
            at, node, kind = found.groups()
            yield StreamRecord(since + int(at), int(node), kind.decode("ascii"), data[found.end() : end])
        else:
            skipped()
            odd += 1
            if odd >= MAX_ODD:
                break
        start = end + 1
    if start < len(data):
        skipped()


def record(at: int, node: int, what: Content, shift_s: float, line: bytes | None = None) -> StreamRecord:
    """Return the record of an arrival at `at` (microseconds of recorded time).

    `shift_s` converts the session's monotonic clock to recorded time; `line`: the frame as it came.
    """
    kind = _KINDS.get(type(what))
    if kind is not None:
        return StreamRecord(at, node, kind, _json.encode(what) if line is None else line)
    if isinstance(what, LinkStatus):
        if what.retry_at is not None:
            what = replace(what, retry_at=what.retry_at + shift_s)
        return StreamRecord(at, node, "link", _json.encode(what))
    return StreamRecord(at, node, _STATE_NAMES[type(what)], _json.encode(what))


def content(one: StreamRecord) -> Content:
    """Return the decoded content of a record.

    Raises:
        FrameError: The record is damaged, or of a kind that this gpuwatch does not know.
    """
    if len(one.body) > MAX_LINE_BYTES:
        raise FrameError(f"a record of {len(one.body)} bytes")
    decoder = _decoders.get(one.kind)
    if decoder is None:
        frame: AnyFrame = decode(one.body)
        if frame.__struct_config__.tag != one.kind:
            raise FrameError(f"a {frame.__struct_config__.tag} called {one.kind}")
        return frame
    state: LinkStatus | ClockReading | Refused = decode_strictly(one.body, decoder, FrameError)
    return state
