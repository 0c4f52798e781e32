"""Converts byte offsets into line numbers, as editors count them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuwatch.agent.logs.files.holes import data_from
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.files.packing import Contents

PIECE_BYTES = 1 << 20


def line_numbers(path: Path, packing: str | None, offsets: Iterable[int]) -> dict[int, int]:
    """Return offset (bytes, unpacked) -> line number from 1; unreadable parts are left out."""
    wanted = sorted(offsets, reverse=True)
    numbers: dict[int, int] = {}
    line = 1
    try:
        for at, data in _pieces(path, packing):
            while wanted and wanted[-1] < at + len(data):
                offset = wanted.pop()
                numbers[offset] = line + data.count(b"\n", 0, offset - at)
            if not wanted:
                break
            line += data.count(b"\n")
    except OSError:
        pass
    return numbers


def _pieces(path: Path, packing: str | None) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) in order, without the holes of a sparse file."""
    at = 0
    if packing is not None:
        for data in Contents(path, packing).pieces():
            yield at, data
            at += len(data)
        return
    with open_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        while (at := data_from(file.fileno(), at, size)) < size:
            file.seek(at)
            data = file.read(PIECE_BYTES)
            if not data:
                return
            yield at, data
            at += len(data)
