"""The copy of what a container prints: long lines cost no more than short ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.link.kube.log_copy import MAX_HELD_BYTES, LogCopy

STAMP = b"2026-11-27T08:00:00.00000000%dZ "
PIECE = 64 << 10


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[LogCopy]:
    yield LogCopy(["kubectl"], tmp_path / "w-3.log", lambda _problem, _at: None)


def test_of_a_line_without_an_end_a_bounded_part_is_held(copy: LogCopy) -> None:
    pieces = [STAMP % 1, *[b"x" * PIECE] * 100]
    assert b"".join(copy._new_lines(piece, b"") for piece in pieces) == b""
    assert copy._held_bytes == sum(map(len, copy._held)) == MAX_HELD_BYTES
    line = copy._new_lines(b"y\n" + STAMP % 2 + b"next\n", b"")
    first, second = line.splitlines()
    assert len(first) == MAX_HELD_BYTES
    assert second == STAMP % 2 + b"next"


def test_lines_in_any_pieces_are_copied_once(copy: LogCopy) -> None:
    text = b"".join(STAMP % n + b"step %d\n" % n for n in range(1, 6))
    copied = b"".join(copy._new_lines(text[at : at + 7], STAMP.rstrip() % 2) for at in range(0, len(text), 7))
    assert [line.split()[-1] for line in copied.splitlines()] == [b"3", b"4", b"5"]
