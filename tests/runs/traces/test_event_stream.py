"""Events are the same however a file is laid out and comes in; damage is stated, never guessed over."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from gpuwatch.runs.traces import event_stream
from gpuwatch.runs.traces.event_stream import EventStream, NoTraceError
from tests.runs.traces.gpu_traces import training


def in_pieces(text: str, seed: int, most: int = 700) -> Iterator[bytes]:
    chance, data, at = random.Random(seed), text.encode(), 0
    while at < len(data):
        size = chance.randint(1, most)
        yield data[at : at + size]
        at += size


def names(stream: EventStream) -> list[str]:
    return [event.name for batch in stream.batches() for event in batch]


@pytest.mark.parametrize("layout", ["kineto", "one line", "compact"])
@pytest.mark.parametrize("piece_bytes", [64, 1500, 1 << 22])
def test_every_layout_gives_the_same_events(
    layout: str, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Document 004, line 97."""
    monkeypatch.setattr(event_stream, "PIECE_BYTES", piece_bytes)
    trace = training(1)
    stream = EventStream(in_pieces(trace.text(layout), piece_bytes))
    assert names(stream) == [each["name"] for each in trace.events]
    assert stream.metadata["distributedInfo"]["rank"] == 1
    assert (stream.unreadable, stream.cut_off) == (0, False)


def test_objects_inside_of_an_event_are_no_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "PIECE_BYTES", 300)
    inner = [{"a": "}, {"}, {"b": [{"c": 1}, {"d": '}],"traceEvents":['}]}] * 5
    events = [{"ph": "X", "name": f"e{at}", "ts": at, "args": {"x": inner}} for at in range(40)]
    stream = EventStream(in_pieces(json.dumps(events), 5))
    assert names(stream) == [f"e{at}" for at in range(40)]


def test_a_field_of_another_type_costs_its_event_at_most() -> None:
    events = [
        {"name": "a", "args": {"stream": "seven"}},
        {"name": "b", "ts": "soon"},
        {"name": "c", "ts": "7"},
        3,
    ]
    stream = EventStream([json.dumps(events[:3]).encode()])
    assert names(stream) == ["a", "c"]
    assert stream.unreadable == 1
    with pytest.raises(NoTraceError):
        names(EventStream([json.dumps(events).encode()]))


def test_a_file_that_ends_in_the_middle_keeps_what_is_complete() -> None:
    trace = training(0)
    text = trace.text()
    stream = EventStream([text[: len(text) // 2].encode()])
    assert 10 < len(names(stream)) < len(trace.events)
    assert stream.cut_off
    assert stream.metadata["distributedInfo"]["world_size"] == 2


@pytest.mark.parametrize(
    "text", ["", "{}", '{"a": [1, 2]}', "loss 2.3\n", "[1, 2]", '{"traceEvents": [{}, 7]}']
)
def test_what_is_no_trace_is_refused(text: str) -> None:
    with pytest.raises(NoTraceError):
        names(EventStream([text.encode()]))


def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_EVENT_BYTES", 10_000)
    pieces = (b'[{"name": "' if at == 0 else b"x" * 1000 for at in range(1_000_000))
    with pytest.raises(NoTraceError):
        names(EventStream(pieces))


@pytest.mark.parametrize(
    "value", [b"NaN", b"-Infinity", b'"\xff\xfe"', b'"\\ud800"', b"1e999", b'{"a": NaN}']
)
@pytest.mark.parametrize("field", [b"ts", b"dur", b"args", b"name", b"other"])
def test_an_event_that_is_no_json_costs_itself_only(field: bytes, value: bytes) -> None:
    bad = b'{"ph": "X", "name": "b", "%s": %s}' % (field, value)
    whole = b'{"traceEvents": [{"ph": "X", "name": "a"}, %s, {"ph": "X", "name": "c"}]}' % bad
    stream = EventStream([whole])
    found = names(stream)
    assert (found[0], found[-1]) == ("a", "c")
    assert len(found) + stream.unreadable == 3
