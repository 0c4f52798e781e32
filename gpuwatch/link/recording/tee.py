"""The tee on a session's inbox: turns arrivals into blocks and key frames, for recordings and a ring."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

import msgspec
import zstandard
from msgspec import Struct

from gpuwatch.clock import SYSTEM, SessionClock
from gpuwatch.link.recording.dictionary import DictionaryTrainer
from gpuwatch.link.recording.latest_records import LatestRecords
from gpuwatch.link.recording.records import BOOK, SESSION, StreamRecord, record
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.wire import AnyRequest, AskJobFiles, AskJobPiece, Lines, Ping, Reply

BLOCK_S = 0.7
"""Seconds per block. With a poll (0.125 s) and a commit a kill -9 loses less than a second."""
BLOCK_BYTES = 4 << 20
"""Bytes (uncompressed) at which a block is closed early."""
KEY_EVERY_S = 20.0
"""Seconds between key frames."""
KEY_SHARE = 0.1
"""Largest share of key frames in the written data; large ones are written less often."""
SMALL_BYTES, SMALL_LEVEL, LARGE_LEVEL = 1 << 20, 12, 1
"""Blocks up to this size use the first zstd level, larger ones (of many nodes) the second."""
RING_BYTES, RING_S = 32 << 20, 900.0
"""Maximum bytes and age (seconds) of the running session's ring of recent records."""
MICRO = 1_000_000
ANSWERS, MARKED = frozenset(("lines", "reply")), frozenset(("finding", "event"))
"""Kinds of frames: answers to requests, and what the timeline counts."""
_json = msgspec.json.Encoder()


class RecordBlock(Struct, frozen=True):
    """About one second of records, compressed. Times are microseconds of recorded time."""

    first: int
    last: int
    wall: int
    """Wall clock minus recorded time at the end of the block."""
    frames: int
    findings: int
    data: bytes


class DictionaryItem(Struct, frozen=True):
    """A zstd dictionary; later blocks are compressed with it and name it by id."""

    id: int
    data: bytes


class KeyFrame(Struct, frozen=True):
    """The records that give the whole state at a time, compressed. `at`: microseconds of recorded time."""

    at: int
    data: bytes


class RequestItem(Struct, frozen=True):
    """A request to a node, as an item of the stream.

    `at`: microseconds of recorded time, `node`: its number in the tee, `number`: of the request in the
    session, `body`: its JSON, uncompressed.
    """

    at: int
    node: int
    number: int
    kind: str
    body: bytes


class AnswerItem(Struct, frozen=True):
    """A frame that answers a request; `data` is its compressed JSON, the other fields as in `RequestItem`."""

    at: int
    node: int
    number: int
    data: bytes


class IncidentMark(Struct, frozen=True):
    """A new or changed incident, for the timeline.

    `at`: microseconds of recorded time, `first`: unix seconds.
    """

    id: str
    number: int
    at: int
    first: float
    severity: str
    headline: str


Item: TypeAlias = RecordBlock | KeyFrame | RequestItem | AnswerItem | IncidentMark | DictionaryItem


class Sink(Protocol):
    """A consumer of the stream's items, such as a recording or a viewer."""

    def put(self, item: Item) -> None:
        """Receive an item; must not block."""
        ...


class BookRecords(Protocol):
    """Encodes the alert book for a recording."""

    def change(self) -> bytes | None:
        """Return the alert book's changes since the last call, encoded; None if there are none."""
        ...

    def whole(self) -> bytes:
        """Return the whole alert book, encoded."""
        ...

    def new_incidents(self, at: int) -> Iterable[IncidentMark]:
        """Yield a mark for each incident that is new, or whose headline or severity changed.

        `at`: now, in microseconds of recorded time.
        """
        ...


class StreamTee:
    """Packs what arrives in a session into compressed blocks and key frames, for the recorders and a ring.

    The session's thread calls `take` with the arrivals of each poll.
    """

    def __init__(self, nodes: Sequence[str], book: BookRecords, clock: SessionClock = SYSTEM) -> None:
        """Create a tee with an empty ring and no sinks.

        Args:
            nodes: Their names, in the order of the plan.
            book: Encodes the alerts and incidents.
            clock: Of the session.
        """
        self.nodes = {name: number for number, name in enumerate(nodes, SESSION + 1)}
        self._clock = clock
        self._shift_s = clock.wall() - clock.monotonic()
        """Converts the monotonic clock to recorded time, which starts at the wall clock."""
        self._book = book
        self._latest = LatestRecords()
        self._lines: list[StreamRecord] = []
        self._bytes = self._frames = self._findings = 0
        self._since_key = 0
        """Compressed bytes since the last key frame."""
        self._key_bytes = 0
        self._key_at = 0
        self._small = zstandard.ZstdCompressor(level=SMALL_LEVEL, write_checksum=True)
        self._large = zstandard.ZstdCompressor(level=LARGE_LEVEL, write_checksum=True)
        self._trainer: DictionaryTrainer | None = DictionaryTrainer()
        self._dictionary: DictionaryItem | None = None
        self._ring: deque[Item] = deque()
        self._ring_bytes = 0
        self._sinks: list[Sink] = []
        self._passed_over: set[tuple[int, int]] = set()
        """Node and number of the requests that are not recorded, and neither are their answers."""

    @property
    def masked(self) -> int:
        """Return the number of secrets that nodes masked in the current command lines and log text."""
        return self._latest.masked

    def micros(self, monotonic_s: float) -> int:
        """Return a time of the session's monotonic clock (seconds) as microseconds of recorded time."""
        return round((monotonic_s + self._shift_s) * MICRO)

    def take(self, arrivals: Iterable[Arrival], now: float) -> None:
        """Add the arrivals of a poll, and the book's changes, at `now` (monotonic seconds)."""
        for arrival in arrivals:
            self._take(arrival)
        at = self.micros(now)
        change = self._book.change()
        if change is not None:
            self._append(StreamRecord(at, SESSION, BOOK, change))
            for mark in self._book.new_incidents(at):
                self._emit(mark)
        if not self._lines:
            return
        if at - self._lines[0].at >= BLOCK_S * MICRO or self._bytes >= BLOCK_BYTES:
            self.flush(now)

    def _take(self, arrival: Arrival) -> None:
        node = self.nodes.get(arrival.node)
        if node is None:
            return
        what = arrival.what
        one = record(self.micros(arrival.at), node, what, self._shift_s, arrival.line)
        if one.kind in ANSWERS and isinstance(what, Lines | Reply):
            if (node, what.id) in self._passed_over:
                self._passed_over.remove((node, what.id))
                return
            self._emit(AnswerItem(one.at, node, what.id, self._compressed(one.body)))
            return
        self._append(one)
        self._frames += 1
        self._findings += one.kind in MARKED
        self._latest.take(one, what)

    def _append(self, one: StreamRecord) -> None:
        self._lines.append(one)
        self._bytes += len(one.body)

    def asked(self, node: str, request: AnyRequest) -> None:
        """Record a request to a node; pings are left out, and the artifacts of a job, which are large."""
        number = self.nodes.get(node)
        if number is not None and isinstance(request, AskJobFiles | AskJobPiece):
            self._passed_over.add((number, request.id))
        elif number is not None and not isinstance(request, Ping):
            at, kind = self.micros(self._clock.monotonic()), str(request.__struct_config__.tag)
            self._emit(RequestItem(at, number, request.id, kind, _json.encode(request)))

    def flush(self, now: float) -> None:
        """Emit the open block, then a key frame if one is due; do nothing if the block has no records.

        `now`: monotonic seconds.
        """
        if not self._lines:
            return
        since = self._lines[0].at
        lines = [one.line(since) for one in self._lines]
        self._learn(lines)
        data = self._compressed(b"".join(lines))
        last = max(since, self.micros(now))
        self._emit(RecordBlock(since, last, self._wall(), self._frames, self._findings, data))
        self._lines = []
        self._bytes = self._frames = self._findings = 0
        self._since_key += len(data)
        late = last - self._key_at >= KEY_EVERY_S * MICRO
        if not self._key_at or (late and self._since_key * KEY_SHARE >= self._key_bytes):
            self._emit(self._key_frame(last))

    def _compressed(self, data: bytes) -> bytes:
        return (self._small if len(data) <= SMALL_BYTES else self._large).compress(data)

    def _learn(self, lines: Sequence[bytes]) -> None:
        """Collect lines of the first blocks, then train a dictionary, which halves the size of blocks."""
        if self._trainer is None or (found := self._trainer.take(lines)) is None:
            return
        self._trainer = None
        if found.data and found.dictionary is not None:
            self._dictionary = DictionaryItem(found.dictionary.dict_id(), found.data)
            self._small = zstandard.ZstdCompressor(
                level=SMALL_LEVEL, dict_data=found.dictionary, write_checksum=True
            )
            self._emit(self._dictionary)

    def _wall(self) -> int:
        return round((self._clock.wall() - self._clock.monotonic() - self._shift_s) * MICRO)

    def _key_frame(self, at: int) -> KeyFrame:
        records = [*self._latest.records(), StreamRecord(at, SESSION, BOOK, self._book.whole())]
        data = self._compressed(b"".join([one.line(at) for one in records]))
        self._key_at, self._key_bytes, self._since_key = at, len(data), 0
        return KeyFrame(at, data)

    def _emit(self, item: Item) -> None:
        for sink in self._sinks:
            sink.put(item)
        self._ring.append(item)
        self._ring_bytes += size_of(item)
        if isinstance(item, KeyFrame):
            self._trim(item.at)

    def _trim(self, now: int) -> None:
        """Drop the oldest part of the ring, up to the next key frame, while the ring is too large or old."""
        keys = [(index, item.at) for index, item in enumerate(self._ring) if isinstance(item, KeyFrame)]
        gone = 0
        for index, at in keys[1:]:
            if at >= now - RING_S * MICRO and self._ring_bytes <= RING_BYTES:
                return
            for _ in range(index - gone):
                self._ring_bytes -= size_of(self._ring.popleft())
            gone = index

    def ring(self, first: float | None = None) -> list[Item]:
        """Return the items of the ring from the time `first` (recorded, seconds) on; None: all.

        The dictionary comes first, then the key frame before `first`, if the ring has one.
        """
        self.flush(self._clock.monotonic())
        kept, start = list(self._ring), 0
        if first is not None:
            keys = ((index, item.at) for index, item in enumerate(kept) if isinstance(item, KeyFrame))
            start = max((index for index, at in keys if at <= first * MICRO), default=0)
        known = [] if self._dictionary is None else [self._dictionary]
        return [*known, *(item for item in kept[start:] if not isinstance(item, DictionaryItem))]

    def attach(self, sink: Sink, past: bool = True) -> Callable[[], None]:
        """Send the stream's items to a sink from now on; call the returned function to end that.

        `past`: send the items of the ring first; else a key frame of the current state.
        """
        self.flush(self._clock.monotonic())
        if self._dictionary is not None:
            sink.put(self._dictionary)
        for item in self._ring if past else ():
            sink.put(item)
        if not past:
            sink.put(self._key_frame(self.micros(self._clock.monotonic())))
        self._sinks.append(sink)

        def detach() -> None:
            self.flush(self._clock.monotonic())
            self._sinks.remove(sink)

        return detach


def size_of(item: Item) -> int:
    """Return the approximate size of an item in bytes."""
    if isinstance(item, IncidentMark):
        return len(item.headline) + 100
    return len(item.body if isinstance(item, RequestItem) else item.data) + 100
