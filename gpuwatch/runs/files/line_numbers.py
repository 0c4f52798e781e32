"""The number of a line from its place in the file, as editors count."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpuwatch.runs.files.packing import Contents


def line_numbers(path: Path, packing: str | None, offsets: Iterable[int]) -> dict[int, int]:
    """Offset (bytes, unpacked) -> line number from 1; what cannot be read is left out."""
    wanted = sorted(offsets, reverse=True)
    numbers: dict[int, int] = {}
    at, line = 0, 1
    try:
        for data in Contents(path, packing).pieces():
            while wanted and wanted[-1] < at + len(data):
                offset = wanted.pop()
                numbers[offset] = line + data.count(b"\n", 0, offset - at)
            if not wanted:
                break
            line += data.count(b"\n")
            at += len(data)
    except OSError:
        pass
    return numbers
