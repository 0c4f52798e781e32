"""Reads local log files for a bundle: whole, or blocks around offsets. Secrets are masked line by line."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from gpuwatch.agent.base.regular_file import open_regular
from gpuwatch.agent.logs.files import pages
from gpuwatch.agent.logs.lines.splitter import Splitter
from gpuwatch.plain import plain
from gpuwatch.report.evidence.document_secrets import ENDINGS, without_secrets
from gpuwatch.report.evidence.masked_lines import masked_lines
from gpuwatch.runs.files.opening import open_below
from gpuwatch.runs.files.packing import Contents
from gpuwatch.session.evidence.log_fetch import ABOVE_LINES, AT_LINES, BELOW_LINES

PIECE_LINES = 2000
PIECE_BYTES = 1 << 20
MAX_DOCUMENT_CHARS = 4 << 20
MAX_LINE_CHARS = 1 << 16
"""Characters of a line of an artifact that are kept."""


def whole_text(path: Path, packing: str | None) -> Iterator[str]:
    """Yield all lines, a few thousand at a time.

    Raises:
        OSError: it cannot be read.
    """
    splitter, at = Splitter(), 0
    for piece in Contents(path, packing).pieces():
        rows = splitter.feed(piece, at)
        at += len(piece)
        for begin in range(0, len(rows), PIECE_LINES):
            yield "".join(f"{plain(row[2])}\n" for row in rows[begin : begin + PIECE_LINES])
    tail = splitter.tail()
    if tail is not None:
        yield f"{plain(tail[2])}\n"


def blocks_text(path: Path, packing: str | None, places: Sequence[int]) -> Iterator[str]:
    """Yield the lines around offsets of the unpacked text, marked with `>` there; else the last lines.

    A heading states the offset after each gap.

    Raises:
        OSError: it cannot be read.
    """
    rows = _plain_rows(path, places) if packing is None else _packed_rows(path, packing, places)
    end: int | None = None
    for offset, following, text in rows:
        gap = f"--- byte {offset:,} ---\n" if end != offset else ""
        end = following
        mark = ">" if any(offset <= place < max(following, offset + 1) for place in places) else " "
        yield f"{gap}{mark} {plain(text)}\n"


def _plain_rows(path: Path, places: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    number = open_regular(os.fspath(path))
    try:
        size = os.fstat(number).st_size

        def read_at(offset: int, count: int) -> bytes:
            return os.pread(number, count, offset)

        found: dict[int, tuple[int, int, str]] = {}
        for place in places or (size,):
            above, below = (ABOVE_LINES, BELOW_LINES) if places else (AT_LINES, 0)
            for row in pages.around(read_at, size, place, (above, below)):
                found[row[0]] = (row[0], row[1], row[2])
        yield from (found[offset] for offset in sorted(found))
    finally:
        os.close(number)


def _packed_rows(path: Path, packing: str, places: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    """Yield the rows around offsets of a packed file, else its last ones; it is unpacked from the start."""
    left = sorted(places)
    recent: list[tuple[int, int, str]] = []
    wanted = 0
    for row in _rows(path, packing):
        if left and row[0] <= left[0] < max(row[1], row[0] + 1):
            while left and left[0] < max(row[1], row[0] + 1):
                left.pop(0)
            yield from recent
            recent, wanted = [], BELOW_LINES
        if wanted:
            wanted -= 1
            yield row
        else:
            recent = [*recent[-(ABOVE_LINES if places else AT_LINES) + 1 :], row]
            if places and not left:
                return
    if not places:
        yield from recent


def _rows(path: Path, packing: str) -> Iterator[tuple[int, int, str]]:
    splitter, at = Splitter(), 0
    for piece in Contents(path, packing).pieces():
        yield from splitter.feed(piece, at)
        at += len(piece)
    tail = splitter.tail()
    if tail is not None:
        yield tail


def masked_text(folder: Path, path: str, named: str | None = None) -> Iterator[str]:
    """Yield a text file that is no log (such as a configuration), line by line with its indentation.

    A line of more than `MAX_LINE_CHARS` is cut there, with a note. A document over `MAX_DOCUMENT_CHARS`
    is masked by its lines alone.

    Args:
        folder: The folder.
        path: The file's path below it.
        named: The name that shows the form of the text; None: the path.

    Raises:
        OSError: it cannot be read, or its path contains a link.
    """
    with os.fdopen(open_below(folder, path), encoding="utf-8", errors="replace") as file:
        source: TextIO = file
        is_masked = False
        name = (named or path).lower()
        if name.endswith(ENDINGS):
            text = file.read(MAX_DOCUMENT_CHARS + 1)
            file.seek(0)
            if len(text) <= MAX_DOCUMENT_CHARS:
                text, is_masked = without_secrets(text, is_json=name.endswith(".json"))
                source = io.StringIO(text)
        for line in masked_lines(_bounded_lines(source), is_masked=is_masked):
            yield f"{line}\n"


def _bounded_lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(MAX_LINE_CHARS):
        rest, cut = line, 0
        while not rest.endswith("\n") and (rest := file.readline(MAX_LINE_CHARS)):
            cut += len(rest)
        yield line.rstrip("\r\n") + (f" [{cut:,} further characters are left out]" if cut else "")


def binary_pieces(folder: Path, path: str, most: int) -> Iterator[bytes]:
    """Yield at most `most` bytes of a file unchanged.

    Raises:
        OSError: it cannot be read, or its path contains a link.
    """
    with os.fdopen(open_below(folder, path), "rb") as file:
        while most > 0 and (piece := file.read(min(most, PIECE_BYTES))):
            most -= len(piece)
            yield piece
