"""Lines that a container runtime cut into pieces, joined."""

from __future__ import annotations

from gpuwatch.runs.scan.cut_lines.partial_lines import MAX_JOINED, joined_partials

HEAD = b"2026-03-04T09:00:00.1Z stderr "


def test_the_pieces_of_each_stream_are_one_line_and_the_size_stays() -> None:
    out = HEAD.replace(b"stderr", b"stdout")
    data = (
        HEAD
        + b"P CUDA out of\n"
        + out
        + b"F step 4\n"
        + HEAD
        + b"P  memo\n"
        + HEAD
        + b"F ry\r\n"
        + HEAD
        + b"F b\n"
    )
    made = joined_partials(data)
    lines = [line.strip() for line in made.splitlines() if line.strip()]
    assert lines == [HEAD + b"P CUDA out of memory", out + b"F step 4", HEAD + b"F b"]
    assert (len(made), made.count(b"\n")) == (len(data), data.count(b"\n"))


def test_lines_without_pieces_and_endless_ones_stay() -> None:
    assert joined_partials(b"a P b\n" + HEAD + b"F c\n") == b"a P b\n" + HEAD + b"F c\n"
    data = (HEAD + b"P " + b"x" * 999 + b"\n") * (2 * MAX_JOINED // 1000)
    assert max(map(len, joined_partials(data).splitlines())) <= MAX_JOINED + len(HEAD) + 2
