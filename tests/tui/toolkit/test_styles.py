"""The gate for remote text, pictures made of numbers, the pace, the map's geometry: no terminal needed."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from gpuwatch.tui.fleet.heat_layout import arrange
from gpuwatch.tui.toolkit.charts import bar, curve, plot, sparkline
from gpuwatch.tui.toolkit.lines.rows import text_of, wrapped
from gpuwatch.tui.toolkit.refresh_rate import RefreshRate
from gpuwatch.tui.toolkit.styles import ASCII, UNICODE, build_styles, clean, fit, wants_ascii
from gpuwatch.tui.toolkit.themes import AsciiOnly


@pytest.mark.parametrize(
    "bad",
    [
        "\x1b[2J",
        "\x1b]52;c;aGk=\x07",
        "\x9b31m",
        "\u202egnp.exe",
        "\u2066x",
        "a\nb",
        "\r",
        "\x00",
        "\u200b",
        "\ud800",
    ],
)
def test_nothing_that_steers_a_terminal_passes(bad: str) -> None:
    safe = clean(f"node{bad}")
    assert safe.startswith("node")
    assert all(c.isprintable() for c in safe)


def test_wide_characters_are_measured() -> None:
    for width in range(1, 12):
        assert cell_len(fit("計算機-01", width)) == width
        assert cell_len(fit("計算機-01", width, ">")) == width


def test_unknown_is_blank_and_known_never_is() -> None:
    line = sparkline([None, None, 0.0, 100.0], 0.0, 100.0, 3, UNICODE)
    assert line[0] == " "
    assert line[1] == " "
    assert line[2] != " "
    assert sparkline([0.0], 0.0, 100.0, 1, ASCII) != " "
    assert all(row.isascii() for row in plot([1.0, 50.0, 99.0], 0.0, 100.0, 4, 3, ASCII))


def test_a_curve_is_a_line_that_is_joined_and_leaves_gaps() -> None:
    assert curve([0.0, 2.0, 2.0, None, 1.0], 0.0, 2.0, 5, 3, ASCII) == [" |'  ", " |  -", ".|   "]
    flat = curve([1.0] * 8, 0.0, 2.0, 4, 2, UNICODE)
    assert [bool(row.strip()) for row in flat] == [True, False]
    assert len({*flat[0]}) == 1
    steep = curve([0.0, 2.0], 0.0, 2.0, 1, 3, UNICODE)
    assert all(row.strip() for row in steep), "what lies between two values is joined"


def test_a_bar_is_as_wide_as_asked_for_at_every_level() -> None:
    for look in (build_styles(), build_styles(ascii_only=True)):
        for level in (None, -1.0, 0.0, 0.01, 0.5, 0.999, 1.0, 7.0):
            assert sum(s.cell_length for s in bar(level, 10, look, look.text, mark=0.8)) == 10


def test_the_terminal_decides_about_ascii() -> None:
    assert wants_ascii({"TERM": "linux", "LANG": "en_US.UTF-8"})
    assert wants_ascii({"TERM": "xterm", "LANG": "C"})
    assert not wants_ascii({"TERM": "xterm", "LC_ALL": "C.UTF-8", "LANG": "C"})


def test_dear_frames_halve_the_rate_after_three_seconds_and_a_key_takes_it_back() -> None:
    pace = RefreshRate(8)
    halved = [pace.frame(n / 8, cpu=n / 8 * 0.5) for n in range(40)]
    assert halved.index(True) == 24
    assert (pace.hz, pace.slowed) == (4, True)
    pace.faster()
    assert (pace.hz, pace.slowed) == (8, False)


@pytest.mark.parametrize(("begin", "faster"), [(1, 2), (8, 16), (20, 30), (30, 30)])
def test_faster_never_slows_down(begin: float, faster: float) -> None:
    pace = RefreshRate(begin)
    pace.faster()
    assert pace.hz == faster


def test_cheap_frames_and_one_dear_one_change_nothing() -> None:
    pace = RefreshRate(8)
    cpu = 0.0
    for n in range(100):
        cpu += 0.2 if n % 10 == 0 else 0.001
        assert not pace.frame(n / 8, cpu)
    assert pace.hz == 8


@pytest.mark.parametrize("nodes", [1, 16, 64, 1024])
@pytest.mark.parametrize("size", [(40, 4), (80, 9), (120, 20), (200, 34)])
def test_every_gpu_has_one_cell_inside_the_width(nodes: int, size: tuple[int, int]) -> None:
    layout = arrange([f"gpu-{n:04}" for n in range(nodes)], [8] * nodes, *size)
    seen = set()
    for number, line in enumerate(layout.lines):
        for block in line:
            assert block.x + (block.stop - block.start) * layout.cell <= size[0]
            for gpu in range(block.start, block.stop):
                place = (block.node, gpu)
                assert place not in seen
                seen.add(place)
                x = block.x + (gpu - block.start) * layout.cell
                assert layout.hit(number, x) == place
                assert layout.block_of(*place) == (number, block)
    assert len(seen) == nodes * 8


def test_a_node_with_more_gpus_than_a_line_holds_wraps() -> None:
    layout = arrange(["rack"], [72], 60, 10)
    assert sum(block.stop - block.start for line in layout.lines for block in line) == 72
    assert layout.cell >= 3


def test_the_lines_of_a_row_are_of_equal_length() -> None:
    layout = arrange([f"gpu-[{n:03}-{n + 31:03}]" for n in range(1, 257, 32)], [32] * 8, 120, 18)
    assert {block.stop - block.start for line in layout.lines for block in line} == {16}


def test_the_layout_takes_the_room_it_gets() -> None:
    names, counts = [f"n{i}" for i in range(16)], [8] * 16
    assert arrange(names, counts, 200, 30).cell > arrange(names, counts, 80, 8).cell >= 3
    assert len(arrange(names, counts, 80, 8).lines) == 8


@pytest.mark.parametrize("width", [120, 160, 200])
@pytest.mark.parametrize("nodes", [4, 8, 16, 32])
def test_no_node_stands_alone_in_the_last_line(nodes: int, width: int) -> None:
    lines = arrange([f"gpu-{n:03}" for n in range(nodes)], [8] * nodes, width, 24, spare=12).lines
    assert len(lines[-1]) == len(lines[0])


def test_a_word_longer_than_a_line_is_parted_after_punctuation() -> None:
    word = "torch.distributed.elastic.multiprocessing.api.SignalException"
    rows = wrapped(f"raised {word}: 15", 50, Style())
    lines = [text_of(row).strip() for row in rows]
    assert lines == ["raised", "torch.distributed.elastic.multiprocessing.api.", "SignalException: 15"]
    assert "".join(text_of(row).strip() for row in wrapped("x" * 200, 50, Style())) == "x" * 200


def test_an_ascii_terminal_gets_ascii_of_the_same_width() -> None:
    line = [Segment("▅▅"), Segment("▐X▌"), Segment("計算機"), Segment("plain")]
    shown = AsciiOnly().apply(line, Color(0, 0, 0))
    assert [segment.text for segment in shown] == ["  ", "[X]", "??????", "plain"]
