"""Reads the lines above and below an offset of a log file, and its last lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gpuwatch.agent.logs.lines.splitter import line_text
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.files.packing import Contents

ABOVE_BYTES, BELOW_BYTES, LAST_BYTES = 16 << 10, 64 << 10, 4 << 10
"""Bytes to read above the offset, below it, and at the end of the file."""
LINE_CHARS = 400
_ENDS = re.compile(rb"[\r\n]+")


class Around(NamedTuple):
    """The lines around an error in its file."""

    above: Sequence[str]
    below: Sequence[str]
    """The lines below the last occurrence of the error."""
    last: Sequence[str]
    """The last lines of the file that are below the error; in a short file equal to the end of `below`."""
    below_bytes: int = 0
    """Bytes from the error to the end of the file."""


def around(path: Path, packing: str | None, first: int, last: int) -> Around | None:
    """Return the lines around a block; None if the file cannot be read.

    Args:
        path: The path of the log.
        packing: The packing of the log; None: plain.
        first: Offset of the block's beginning (bytes, unpacked).
        last: Offset of the beginning of its last line.
    """
    try:
        data = _plain(path, first, last) if packing is None else _unpacked(path, packing, first, last)
    except OSError:
        return None
    above, below, tail, size = data
    lines = _lines(below)[1:]
    ends = _lines(tail)[1:] if size - last > BELOW_BYTES else lines
    return Around(_lines(above), lines, ends, max(0, size - last))


def _plain(path: Path, first: int, last: int) -> tuple[bytes, bytes, bytes, int]:
    with open_file(path) as file:
        size = file.seek(0, 2)
        start = max(0, first - ABOVE_BYTES)
        file.seek(start)
        above = file.read(first - start)
        file.seek(last)
        below = file.read(BELOW_BYTES)
        end = max(last, size - LAST_BYTES)
        file.seek(end)
        return above, below, file.read(LAST_BYTES), size


def _unpacked(path: Path, packing: str, first: int, last: int) -> tuple[bytes, bytes, bytes, int]:
    above, below, tail, at = b"", b"", b"", 0
    for piece in Contents(path, packing).pieces():
        end = at + len(piece)
        above = (above + piece[: max(0, first - at)])[-ABOVE_BYTES:] if at < first else above
        if end > last:
            own = piece[max(0, last - at) :]
            below += own[: BELOW_BYTES - len(below)]
            tail = (tail + own)[-LAST_BYTES:]
        at = end
    return above, below, tail, at


def _lines(data: bytes) -> list[str]:
    return [line_text(line)[:LINE_CHARS] for line in _ENDS.split(data) if line.strip()]
