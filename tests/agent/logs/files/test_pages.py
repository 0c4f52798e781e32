"""Pages of long lines are shorter, and pages after pages show the whole file."""

from __future__ import annotations

import pytest

from gpuwatch.agent.logs.files import pages
from gpuwatch.agent.logs.lines.splitter import MAX_LINE

LINES = {
    "short": [f"step {step} loss 2.3" for step in range(3000)],
    "long": [f"step {step} token=" + "name=value=" * 700 for step in range(300)],
    "longer than is shown": [f"step {step} " + "x" * 3 * MAX_LINE for step in range(60)],
    "one huge line": ["a", "y" * (5 << 20), "b"],
    "bars": ["\r".join(f"{percent}%|#| {percent}/100 [00:01]" for percent in range(100)) for _ in range(300)],
}


class Counted:
    def __init__(self, lines: list[str]) -> None:
        self.data = "".join(f"{line}\n" for line in lines).encode()

    def __call__(self, offset: int, count: int) -> bytes:
        return self.data[offset : offset + count]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lines", LINES.values(), ids=LINES.keys())
def test_pages_upwards_reach_the_begin_and_leave_out_no_line(lines: list[str]) -> None:
    file = Counted(lines)
    size = start = len(file.data)
    offsets: list[int] = []
    while start > 0:
        page = pages.around(file, size, start, (500, 0))
        assert page
        assert start - 1 <= page[-1][1] <= start
        assert sum(len(one[2]) for one in page[1:]) <= pages.MAX_TEXT
        offsets[:0] = [one[0] for one in page]
        start = page[0][0]
        if start and not file.data[start - 1 : start].endswith((b"\n", b"\r")):
            start = file.data.rfind(b"\n", 0, start) + 1  # inside the huge line: its begin is too far away
    begins = [0]
    for line in lines[:-1]:
        begins.append(begins[-1] + len(line) + 1)
    assert lines is LINES["bars"] or set(begins) <= {*offsets, begins[1]}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["short", "long", "longer than is shown"])
def test_pages_downwards_reach_the_end_and_leave_out_no_line(name: str) -> None:
    file = Counted(LINES[name])
    size, start, offsets = len(file.data), 0, []
    while start < size:
        page = pages.around(file, size, start, (0, 500))
        assert page
        offsets += [one[0] for one in page]
        start = page[-1][1]
    assert len(offsets) == len(set(offsets)) == len(LINES[name])


def test_a_page_of_short_lines_has_as_many_as_were_asked_for() -> None:
    file = Counted(LINES["short"])
    page = pages.around(file, len(file.data), len(file.data), (1000, 0))
    assert [one[2] for one in page] == LINES["short"][-1000:]


def test_the_search_for_the_start_of_a_huge_line_ends_after_what_is_read_in_one_direction() -> None:
    read: list[int] = []

    def read_at(_offset: int, count: int) -> bytes:
        read.append(count)
        return b"y" * count

    assert pages.line_start(read_at, 20 << 20) == (20 << 20) - pages.MAX_BYTES
    assert max(read) == pages.MAX_BYTES
