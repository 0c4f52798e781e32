"""Numbers and lists as text: the edges at which a unit or a form changes."""

from __future__ import annotations

import pytest

from gpuwatch import number_text
from gpuwatch.number_text import (
    counted,
    duration,
    folded,
    limit_text,
    listed,
    plural,
    ranges,
    rate_text,
    size_text,
)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (512, "512B"), (1023, "1023B"), (1024, "1K"), (1_234_567, "1.18M"), (3 << 29, "1.5G"),
        (64 << 20, "64M"), (1023 << 20, "1023M"),
    ],
)  # fmt: skip
def test_a_message_has_one_size_everywhere(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(100, "100 bytes"), (64 << 20, "64 MiB"), (3 << 29, "1.5 GiB"), (1023 << 30, "1023 GiB"),
     (1 << 40, "1 TiB"), (10 << 40, "10 TiB")],
)  # fmt: skip
def test_a_limit_has_no_exponent(size: int, text: str) -> None:
    assert limit_text(size) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [(None, "-"), (0.0, "0.000"), (0.0001, "<.001"), (0.024, "0.024"), (0.9994, "0.999"), (0.9996, "1.00"),
     (9.994, "9.99"), (48.72, "48.7"), (99.96, "100"), (392.4, "392")],
)  # fmt: skip
def test_a_rate_takes_at_most_five_cells(rate: float | None, text: str) -> None:
    assert rate_text(rate) == text


def test_ranges_and_lists_are_cut_with_a_sign() -> None:
    assert ranges([3, 1, 2, 9, 2]) == "1-3, 9"
    assert ranges(range(0, 20, 2), 3) == "0, 2, 4, ..."
    assert folded([3, 1, 2, 9, 2]) == "1-3,9"
    assert folded([]) == ""
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"


def test_counts() -> None:
    assert (plural(1, "rank"), plural(2, "rank"), plural(4096, "rank")) == ("1 rank", "2 ranks", "4096 ranks")
    assert (counted(1, "node"), counted(4096, "node")) == ("1 node", "4,096 nodes")
    assert counted(2, "process", "processes") == "2 processes"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.44, "0.4 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h")]
)
def test_a_duration_has_one_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_an_unknown_number_is_a_dash() -> None:
    unknown = [number_text.time_text(None), number_text.share_text(None), rate_text(None)]
    assert unknown == [number_text.UNKNOWN] * 3
