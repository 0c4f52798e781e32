"""Bytes as lines."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent.logs.lines.splitter import MAX_LINE, Splitter


def rows(data: bytes, cuts: tuple[int, ...] | list[int] = ()) -> list[tuple[int, int, str]]:
    splitter, at, found = Splitter(), 0, []
    for size in [*cuts, len(data)]:
        found += splitter.feed(data[at : at + size], at)
        at = min(len(data), at + size)
    tail = splitter.tail()
    return found + ([tail] if tail else [])


def texts(data: bytes) -> list[str]:
    return [text for _, _, text in rows(data)]


def test_lines_carry_their_place_in_the_file() -> None:
    data = b"one\ntwo\r\n\nfour"
    assert rows(data) == [(0, 4, "one"), (4, 9, "two"), (9, 10, ""), (10, 14, "four")]


def test_of_a_bar_only_the_last_state_is_reported_and_the_record_glued_to_it_stands_alone() -> None:
    bar = b"\r 33%|###       | 1/3 [00:01<00:02,  1.00s/it]\r 66%|######    | 2/3 [00:02<00:01,  1.00s/it]"
    assert texts(bar) == [" 66%|######    | 2/3 [00:02<00:01,  1.00s/it]"]
    assert texts(bar + b"\nnext\n") == [" 66%|######    | 2/3 [00:02<00:01,  1.00s/it]", "next"]
    glued = rows(bar + b"[2025-06-15 12:00:00] saved\n")
    assert [text for _, _, text in glued][1:] == ["[2025-06-15 12:00:00] saved"]
    assert glued[1][0] == len(bar)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[1;31mred\x1b[0m text", "red text"),
        (b"\x1b]0;title\x07shown", "shown"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1bPrank 3 failed", "rank 3 failed"),
        (b"\x1b]0;rank 3 failed", "0;rank 3 failed"),
        (b"\x1b_x\x1b\\rank 3 failed", "rank 3 failed"),
        (b"nul\x00and\x08bell\x07", "nulanbell"),
        (b"bad \xff\xfe bytes", "bad \ufffd\ufffd bytes"),
        (b"a\tb", "a    b"),
        ("größer".encode(), "größer"),
    ],
)
def test_a_line_is_text_and_nothing_else(data: bytes, text: str) -> None:
    assert texts(data + b"\n") == [text]


def test_a_line_of_a_hundred_megabytes_is_cut_in_bounded_memory() -> None:
    splitter, piece = Splitter(), b"y" * 1_000_000
    tracemalloc.start()
    for number in range(100):
        assert splitter.feed(piece, number * len(piece)) == []
    (row,) = splitter.feed(b"\n", 100_000_000)
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()
    assert row[:2] == (0, 100_000_001)
    assert len(row[2]) == MAX_LINE


pieces = st.sampled_from(
    [
        b"word",
        b"\n",
        b"\r",
        b"\r\n",
        b" 50%|#####     | 1/2 [00:01<00:01,  1.0s/it]",
        b"\x1b[1m",
        b"\xc3\xa4",
        b"[I] x",
    ]
)


@given(st.lists(pieces, max_size=30), st.lists(st.integers(1, 9), max_size=30))
def test_any_chunking_gives_the_same_lines(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    assert rows(data, cuts) == rows(data)


@given(st.lists(pieces, max_size=30))
def test_rows_are_in_order_and_inside_the_file(parts: list[bytes]) -> None:
    data = b"".join(parts)
    found = rows(data)
    assert [start for start, _, _ in found] == sorted(start for start, _, _ in found)
    assert all(0 <= start <= end <= len(data) for start, end, _ in found)
