"""Files of which a page is loaded are followed: no line comes twice, and each keeps its time."""

from __future__ import annotations

import pytest

from gpuwatch.tui.logs.data.buffer import Buffer
from gpuwatch.tui.logs.data.merge import Merge
from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.tui.logs.data.viewport import View
from tests.tui.logs.log_nodes import NOON, PATH, FakeFile, LogSession, clock, one_file, pulled


def numbers_of(buffer: Buffer) -> list[int]:
    return [int(line.text.split()[-1]) for line in buffer.lines]


@pytest.mark.parametrize("at", [50, 850, 990])  # far above the end, beside it, at the end
def test_the_end_continues_the_page_or_takes_its_place(at: int) -> None:
    session = one_file(1000)
    buffer = Buffer(LogSource("gpu-001", PATH, 0), session, page=100)
    buffer.read_until(NOON + at)
    pulled(session, buffer)
    buffer.follow()
    pulled(session, buffer)
    numbers = numbers_of(buffer)
    assert buffer.live
    assert numbers == list(range(numbers[0], 1000))
    assert [buffer.time(buffer.base + i) - NOON for i in range(len(numbers))] == numbers
    session.write("gpu-001", PATH, f"{clock(1000)} line 1000")
    pulled(session, buffer)
    assert numbers_of(buffer)[-2:] == [999, 1000]


def test_a_row_is_unfolded_though_a_line_arrives_before_the_frame() -> None:
    files = [FakeFile(f"/logs/rank_{rank}.log", [rank]) for rank in range(4)]
    session = LogSession({"gpu-001": files})
    for file in files:
        file.write(f"{clock(1)} ERROR the same of all")
    buffers = [Buffer(LogSource("gpu-001", file.path, rank), session) for rank, file in enumerate(files)]
    for buffer in buffers:
        buffer.follow()
    view = View(Merge(buffers))
    pulled(session, *buffers)
    view.sync()
    assert [row.count for row in view.sheet.rows] == [4]
    session.write("gpu-001", files[0].path, f"{clock(9)} another line")
    pulled(session, *buffers)
    assert view.unfold()
    assert [row.count for row in view.sheet.rows] == [1] * 5
    assert view.index == 0
