"""Bytes to frames: any chunking, any garbage, bounded everything."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.link.recording.records import content, record
from gpuwatch.link.stream.frame_stream import FrameStream, Item, Started, StreamLimits
from gpuwatch.link.stream.inbox import Refused
from gpuwatch.link.stream.limits import NOISE_LIMIT_BYTES, StreamError
from gpuwatch.wire import MAX_LINE_BYTES, Bye, Finding, Reply, Sample
from gpuwatch.wire.limits import FIRST_OWN_FINDING

NONCE = "00c0ffee00c0ffee"
MARK = b"\nGPUWATCH1 00c0ffee00c0ffee\n"


def _sample(seq: int) -> bytes:
    return json.dumps({"kind": "sample", "t": 1.0, "seq": seq, "v": 1}).encode() + b"\n"


def _squeezed(lines: Iterable[bytes]) -> bytes:
    squeeze = zlib.compressobj(1)
    return b"".join(squeeze.compress(line) + squeeze.flush(zlib.Z_SYNC_FLUSH) for line in lines)


def _cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [*pieces, data[at:]]


def _run(stream: FrameStream, pieces: Iterable[bytes], now: float = 0.0) -> list[Item]:
    return [item for piece in pieces for item in stream.feed(piece, now)]


def _refused(items: Iterable[Item]) -> int:
    return sum(item.count for item in items if isinstance(item, Refused))


LINES = st.lists(
    st.one_of(
        st.integers(0, 99).map(_sample),
        st.binary(max_size=40).map(lambda junk: junk.replace(b"\n", b" ") + b"\n"),
        st.just(b'{"kind":"bye","t":1,"seq":9,"reason":"done"}\n'),
    ),
    max_size=30,
)


@given(noise=st.binary(max_size=300), lines=LINES, sizes=st.lists(st.integers(0, 60), max_size=60))
def test_any_chunking_gives_the_same_frames(noise: bytes, lines: list[bytes], sizes: list[int]) -> None:
    data = noise + MARK + _squeezed(lines)
    whole, pieces = FrameStream(NONCE), FrameStream(NONCE)
    at_once = _run(whole, [data, b""], now=0.0)
    in_pieces = _run(pieces, _cut(data, sizes), now=0.0)
    # What was refused may be reported later than it happened, but never lost.
    at_once += whole.feed(b"", 10.0)
    in_pieces += pieces.feed(b"", 10.0)
    frames = [item for item in at_once if not isinstance(item, Refused)]
    assert frames == [item for item in in_pieces if not isinstance(item, Refused)]
    assert frames[0] == Started()
    assert len(frames) - 1 + _refused(at_once) == len(lines)
    assert _refused(at_once) == _refused(in_pieces)
    assert whole.noise == pieces.noise == noise.decode("utf-8", "replace")


@given(st.lists(st.binary(max_size=500), max_size=20), st.booleans())
def test_garbage_raises_only_its_own_error(pieces: list[bytes], after_start: bool) -> None:
    stream = FrameStream(NONCE)
    if after_start:
        assert _run(stream, [MARK]) == [Started()]
    try:
        items = _run(stream, pieces)
    except StreamError as error:
        assert "damaged" in str(error)
    else:
        assert Started() not in items


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_flipped_byte_costs_frames_but_never_the_process(at: int, value: int) -> None:
    data = bytearray(_squeezed(_sample(n) for n in range(5)))
    data[at % len(data)] = value
    stream = FrameStream(NONCE)
    got = _run(stream, [MARK])
    try:
        for item in stream.feed(bytes(data), 0.0):
            got.append(item)
    except StreamError:
        pass
    assert all(isinstance(item, Started | Sample | Reply | Bye | Refused) for item in got)


def test_a_banner_without_the_nonce_is_noise() -> None:
    banner = b"Welcome!\nGPUWATCH1 deadbeef\n" + _squeezed([_sample(1)])
    stream = FrameStream(NONCE)
    items = _run(stream, [banner + MARK + _squeezed([_sample(2)])])
    assert [type(item).__name__ for item in items] == ["Started", "Sample"]
    assert stream.noise.startswith("Welcome!\nGPUWATCH1 deadbeef")


def test_endless_noise_is_refused_and_not_kept() -> None:
    stream = FrameStream(NONCE)
    with pytest.raises(StreamError, match="64 KiB of output"):
        _run(stream, [b"x" * 1000] * 1000)
    assert len(stream.noise) == NOISE_LIMIT_BYTES


def test_a_zlib_bomb_is_refused_before_it_is_inflated() -> None:
    bomb = zlib.compress(bytes(1 << 28), 9)
    assert len(bomb) < 1 << 20
    stream = FrameStream(NONCE, StreamLimits(bytes_burst=4 << 20))
    with pytest.raises(StreamError, match="MiB/s"):
        _run(stream, [MARK, bomb])


@pytest.mark.parametrize(
    "packed",
    [
        _squeezed([b"\n" * (4 << 20)]),
        b"\x78\x9c" + b"\x00\x00\x00\xff\xff" * (8 << 20),
    ],
    ids=["empty lines", "blocks that inflate to nothing"],
)
def test_a_flood_of_nothing_ends_the_stream(packed: bytes) -> None:
    """Each empty line takes 0.7 us; sent in 4 kB, 4 MiB of them took 3 s."""
    stream = FrameStream(NONCE)
    _run(stream, [MARK])
    with pytest.raises(StreamError):
        _run(stream, [packed])


def test_a_flood_of_frames_that_are_refused_ends_the_stream() -> None:
    """They take as long to read as others."""
    line = b'{"v":1,"t":1.0,"seq":1,"kind":"none","x":["' + b"x" * (MAX_LINE_BYTES - 100) + b'"]}\n'
    with pytest.raises(StreamError):
        _run(FrameStream(NONCE), [MARK + _squeezed([line] * 30)])


def test_an_overlong_line_is_one_refusal_and_the_next_frame_arrives() -> None:
    lines = [b"[" * (MAX_LINE_BYTES + 1) + b"\n", b"{" * (3 * MAX_LINE_BYTES) + b"\n", _sample(3)]
    items = _run(FrameStream(NONCE), [MARK + _squeezed(lines)])
    assert [item.seq for item in items if isinstance(item, Sample)] == [3]
    assert _refused(items) == 2


def test_a_line_of_exactly_the_limit_passes() -> None:
    frame = _sample(4).rstrip()
    items = _run(FrameStream(NONCE), [MARK + _squeezed([frame.ljust(MAX_LINE_BYTES) + b"\n"])])
    assert _refused(items) == 0
    assert isinstance(items[1], Sample)


def test_a_node_sends_no_finding_with_an_id_of_the_sessions_own() -> None:
    lines = [
        b'{"v":1,"kind":"finding","t":1,"seq":%d,"id":%d,"rule":"oom.cuda","severity":"error","role":"root",'
        b'"file":"a","offset":0,"at":1.0,"lines":["x"]}\n' % (number, number)
        for number in (7, FIRST_OWN_FINDING, FIRST_OWN_FINDING + 7)
    ]
    items = _run(FrameStream(NONCE), [MARK + _squeezed(lines)])
    assert [item.id for item in items if isinstance(item, Finding)] == [7]
    assert _refused(items) == 2


def test_a_flood_of_frames_is_cut_counted_and_recovers() -> None:
    stream = FrameStream(NONCE, StreamLimits(frames_per_s=10, frames_burst=20))
    items = _run(stream, [MARK + _squeezed(_sample(n) for n in range(100))], now=5.0)
    assert [item.seq for item in items if isinstance(item, Sample)] == list(range(20))
    assert _refused(items) == 80
    later = list(stream.feed(b"", 6.5))
    assert later == []


def test_bad_lines_come_as_one_refusal_a_second() -> None:
    stream = FrameStream(NONCE)
    squeeze = zlib.compressobj(1)
    _run(stream, [MARK])
    reported = []
    for tick in range(40):
        piece = squeeze.compress(b"no frame\n") + squeeze.flush(zlib.Z_SYNC_FLUSH)
        reported += list(stream.feed(piece, tick * 0.1))
    reported += list(stream.feed(b"", 60.0))
    assert len(reported) <= 6
    assert _refused(reported) == 40


def test_bytes_after_the_end_of_the_zlib_stream_are_ignored() -> None:
    data = zlib.compress(_sample(1)) + b"rubbish"
    stream = FrameStream(NONCE)
    items = _run(stream, [MARK + data, b"more"])
    assert [type(item).__name__ for item in items] == ["Started", "Sample"]


def test_a_flood_of_what_is_kept_ends_the_stream_and_a_flood_of_samples_does_not() -> None:
    stream = FrameStream(NONCE, StreamLimits(kept_bytes_per_s=1000, kept_bytes_burst=10_000))
    list(stream.feed(MARK, 0.0))
    sample = b'{"kind":"sample","t":1,"seq":1}\n' * 500
    event = b'{"kind":"event","event":"xid","t":1,"seq":1,"title":"%s"}\n' % (b"x" * 2000)
    packer = zlib.compressobj()

    def sent(data: bytes) -> bytes:
        return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)

    assert len(list(stream.feed(sent(sample), 1.0))) == 500
    assert len(list(stream.feed(sent(event * 4), 1.0))) == 4
    with pytest.raises(StreamError, match="findings, events"):
        list(stream.feed(sent(event * 2), 1.0))


def test_the_line_of_a_frame_is_kept_for_recordings_as_it_came() -> None:
    line = b'{"kind":"sample","t":1.0,"seq":3,"v":1,"of_a_newer_agent":[1]}'
    stream = FrameStream(NONCE)
    (_, frame) = _run(stream, [MARK + _squeezed([line + b"\n"])])
    assert isinstance(frame, Sample)
    one = record(5, 1, frame, 0.0, stream.line)
    assert (one.kind, one.body) == ("sample", line)
    assert content(one) == frame
