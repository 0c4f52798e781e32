"""Files whose clocks are wrong hide no lines of others in the merged view."""

from __future__ import annotations

import pytest

from gpuwatch.tui.logs.data.buffer import Buffer
from gpuwatch.tui.logs.data.merge import Merge
from gpuwatch.tui.logs.data.sources import LogSource
from tests.tui.logs.log_nodes import FakeFile, LogSession, clock


def merged(begin: float, *, at_start: bool) -> tuple[Merge, list[str]]:
    """A file of today, and one of which a part is loaded, whose times begin elsewhere."""
    today, other = FakeFile("/a", [0]), FakeFile("/b", [1])
    for number in range(20):
        today.write(f"{clock(40_000 + number)} today {number}")
    for number in range(1000):
        other.write(f"{clock(begin + number)} other {number}")
    session = LogSession({"gpu-001": [today, other]})
    buffers = [
        Buffer(LogSource("gpu-001", file.path, rank), session) for rank, file in enumerate((today, other))
    ]
    for buffer in buffers:
        buffer.go(offset=0) if at_start else buffer.follow()
    merge = Merge(buffers)
    for _ in range(3):
        session.poll()
        for buffer in buffers:
            buffer.pull()
    merge.sync()
    return merge, [merge.line(number).text.split(" ", 1)[1] for number in range(merge.base, merge.end)]


@pytest.mark.parametrize("at_start", [True, False])
@pytest.mark.parametrize("begin", [0.0, 80_000.0])
def test_a_clock_that_is_wrong_hides_no_other_file(begin: float, at_start: bool) -> None:
    merge, texts = merged(begin, at_start=at_start)
    assert {f"today {number}" for number in range(20)} <= set(texts)
    assert any(text.startswith("other") for text in texts)
    assert bool(merge.seams) is (begin > 40_000 and not at_start)


def test_overlapping_files_begin_where_both_are_loaded() -> None:
    _, texts = merged(39_210.0, at_start=False)
    assert texts[:2] == ["today 10", "other 800"]
