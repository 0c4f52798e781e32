"""Streams the events of a Chrome trace (JSON) with constant memory, a few megabytes at a time.

A trace is an object with the list `traceEvents`, or that list alone. The bytes of the list are cut after an
event and decoded; the cut was right if the piece decodes, because a piece that is cut elsewhere is not a list
of complete values.

Example: the buffer holds `{"ph":"X","args":{"a":1}},{"ph":"X","ar`. The last `},` that may be a border ends
at the first event; `[{"ph":"X","args":{"a":1}}]` decodes, so that event is returned and the rest waits for
more bytes.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gpuwatch.number_text import limit_text
from gpuwatch.runs.traces.trace_event import EventWithoutArguments, TraceEvent

PIECE_BYTES = 4 << 20
"""Number of bytes that are decoded at a time; the events take about ten times as much memory."""
MAX_EVENT_BYTES = 64 << 20
"""Largest event in bytes; the largest ones in real traces (stacks, shapes) have kilobytes."""
MAX_METADATA_BYTES = 16 << 20
"""Most bytes of metadata before and after the list of events."""
MAX_CUTS_TRIED = 6
"""Most cuts that are tried before the events are parsed one by one.

An event may contain a list of objects, which looks like a border.
"""
LIST_BEGINS = re.compile(rb'"traceEvents"\s*:\s*\[')
BETWEEN = b" \t\r\n,"
BETWEEN_EVENTS = re.compile(rb"\}\s*,\s*\{")
_events = msgspec.json.Decoder(list[TraceEvent], strict=False)
_raw_events = msgspec.json.Decoder(list[msgspec.Raw], strict=False)
_event = msgspec.json.Decoder(TraceEvent, strict=False)
_bare_event = msgspec.json.Decoder(EventWithoutArguments, strict=False)
_one_value = json.JSONDecoder()


class NoTraceError(ValueError):
    """Raised if the file is not a trace, or cannot be read as one; the message gives the reason."""


class EventStream:
    """The events of one file, in batches; `metadata` is complete after the last batch."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self.metadata: dict[str, Any] = {}
        self.unreadable = 0
        """Number of dropped events: not objects, or with invalid times."""
        self.cut_off = False
        """True if the file ends within the list (its program was killed while writing)."""

    def batches(self) -> Iterator[list[TraceEvent]]:
        """Yield all events, a batch at a time.

        Raises:
            NoTraceError: the file is not a Chrome trace, or damaged.
        """
        head, held = self._to_the_list()
        ended = False
        while not ended and held[:1] != b"]":
            held, ended = self._filled(held)
            events, cut = ([], 0) if ended else self._cut_by_trial(held)
            if not cut:
                borders = _complete_events(held)
                cut = borders[-1][1] if borders else 0
                events = self._decoded_apart(held, borders)
            yield events
            held = held[cut:].lstrip(BETWEEN)
            if not cut and len(held) > MAX_EVENT_BYTES:
                raise NoTraceError(f"an event is larger than {limit_text(MAX_EVENT_BYTES)}, or damaged")
        self.cut_off = held[:1] != b"]"
        if head is not None:
            self._read_metadata(head, held[1:])

    def _to_the_list(self) -> tuple[bytes | None, bytes]:
        """Return the bytes before the list of events (None: the file is the list), and its first bytes.

        Raises:
            NoTraceError: the file has no list of events.
        """
        held = b""
        for piece in self._pieces:
            held = held + piece if held else piece.lstrip(b"\xef\xbb\xbf \t\r\n")
            if held[:1] == b"[":
                return None, held[1:].lstrip()
            if held and held[:1] != b"{":
                break
            found = LIST_BEGINS.search(held)
            if found is not None:
                return held[: found.start()], held[found.end() :].lstrip()
            if len(held) > MAX_METADATA_BYTES:
                break
        raise NoTraceError('not a Chrome trace: it has no list "traceEvents"' if held else "empty")

    def _filled(self, held: bytes) -> tuple[bytes, bool]:
        """Read enough bytes for a batch; return them, and whether the file has ended."""
        parts, size, ended = [held], len(held), True
        wanted = max(PIECE_BYTES, 2 * size)
        for piece in self._pieces:
            parts.append(piece)
            size += len(piece)
            if size >= wanted:
                ended = False
                break
        return b"".join(parts).lstrip(BETWEEN), ended

    def _cut_by_trial(self, held: bytes) -> tuple[list[TraceEvent], int]:
        """Decode up to the last possible border.

        Return the events and the border's offset, or ([], 0) if no border worked.
        """
        end, tried = len(held), 0
        while tried < MAX_CUTS_TRIED and (end := held.rfind(b"}", 0, end)) >= 0:
            if BETWEEN_EVENTS.match(held, end) is None:
                continue
            tried += 1
            with contextlib.suppress(ValueError, RecursionError):
                return self._decoded(held[: end + 1]), end + 1
        return [], 0

    def _decoded(self, events: bytes) -> list[TraceEvent]:
        """Return the events in bytes that end after an event.

        Raises:
            ValueError: the bytes do not decode as complete events.
        """
        text = b"[" + events + b"]"
        try:
            return _events.decode(text)
        except (msgspec.ValidationError, RecursionError):  # a field of another type: take the other events
            return [event for event in map(self._single, _raw_events.decode(text)) if event is not None]

    def _decoded_apart(self, held: bytes, borders: list[tuple[int, int]]) -> list[TraceEvent]:
        """Return events decoded one by one, without invalid JSON: a bare NaN, or bytes that are not UTF-8."""
        try:
            return self._decoded(held[: borders[-1][1] if borders else 0])
        except (ValueError, RecursionError):
            pieces = (self._single(held[begin:end]) for begin, end in borders)
            return [event for event in pieces if event is not None]

    def _single(self, raw: msgspec.Raw | bytes) -> TraceEvent | None:
        try:
            return _event.decode(raw)
        except (ValueError, RecursionError):
            pass
        try:
            bare = _bare_event.decode(raw)
        except (ValueError, RecursionError):
            self.unreadable += 1
            return None
        return TraceEvent(bare.ph, bare.cat, bare.name, bare.ts, bare.dur, bare.pid, bare.tid)

    def _read_metadata(self, head: bytes, tail: bytes) -> None:
        parts, size = [tail], len(tail)
        for piece in self._pieces:
            size += len(piece)
            if size > MAX_METADATA_BYTES:
                return
            parts.append(piece)
        behind = b"}" if self.cut_off else b"".join(parts)
        try:
            found = msgspec.json.decode(head + b'"traceEvents":null' + behind)
        except (ValueError, RecursionError):
            return
        self.metadata = found if isinstance(found, dict) else {}


def _complete_events(held: bytes) -> list[tuple[int, int]]:
    """Return start and end of each complete event in the buffer.

    Raises:
        NoTraceError: the buffer has something other than events.
    """
    text = held.decode("latin-1")  # one character a byte: positions stay
    at, found = 0, list[tuple[int, int]]()
    while at < len(text) and text[at] == "{":
        try:
            _, end = _one_value.raw_decode(text, at)
        except (ValueError, RecursionError):
            return found
        found.append((at, end))
        at = end
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
    if at < len(text) and text[at] not in "{]":
        raise NoTraceError("damaged: the list of events contains something other than events")
    return found
