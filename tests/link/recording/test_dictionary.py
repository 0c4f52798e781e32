"""Of few nodes blocks are compressed with a dictionary trained on the first seconds, and read with it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from gpuwatch.clock import SessionClock
from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.link.recording.cut import cut_ring
from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.tee import StreamTee
from gpuwatch.link.recording.writer import RecordingWriter
from tests.link.demo.story import frames_until
from tests.link.recording.recordings import NoBook


def test_a_dictionary_more_than_halves_the_seconds_of_one_node(tmp_path: Path) -> None:
    now = 0.0
    tee = StreamTee(["gpu-001"], NoBook(), SessionClock(lambda: now, lambda: now))
    writer = RecordingWriter(tmp_path / "a.gpw", demo_plan(), tee.nodes)
    tee.attach(writer)
    frames = 0
    for arrival in frames_until(42.0, 42.0):
        if arrival.node == "gpu-001":
            now = arrival.at
            tee.take([arrival], now)
            frames += 1
    late = tee.attach(other := RecordingWriter(tmp_path / "b.gpw", demo_plan(), tee.nodes))
    late()
    cut_ring(tee, demo_plan(), 30.0, 42.0, tmp_path / "c.gpw")
    writer.close()
    other.close()
    sizes: list[int] = []
    for name in ("a.gpw", "b.gpw", "c.gpw"):
        with closing(Recording(tmp_path / name)) as recording:
            blocks = list(recording.blocks(0))
            read = sum(1 for block in blocks for _ in recording.records(block))
            assert not recording.damaged
        assert read == frames or name == "c.gpw"
        sizes = sizes or [len(block.data) for block in blocks]
    assert sum(sizes[-8:]) / 8 < 0.5 * sum(sizes[8:16]) / 8
