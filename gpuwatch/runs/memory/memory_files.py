"""Reads the memory of ranks from snapshots and logs under the given paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuwatch.plain import plain
from gpuwatch.runs.files.encodings import HEAD_BYTES
from gpuwatch.runs.files.files import Skipped, reason, walked
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.files.packing import Contents, packing_of
from gpuwatch.runs.flight.pickle_reader import PICKLE_BEGINS, NoDumpError
from gpuwatch.runs.memory.log_lines import MAX_LINE_CHARACTERS, MemoryLines
from gpuwatch.runs.memory.rank_memory import RankMemory, ZeroPartition
from gpuwatch.runs.memory.snapshot import MAX_SNAPSHOT_BYTES, read_snapshot
from gpuwatch.runs.traces.trace_files import rank_of_path

MAX_REPORTS = 4096


@dataclass
class FoundMemory:
    """The memory of the ranks, their ZeRO partitions, and the files without memory data or not read."""

    ranks: list[RankMemory] = field(default_factory=list)
    partitions: list[ZeroPartition] = field(default_factory=list)
    """One for each rank whose log states its partitions, in the order of the ranks."""
    skipped: list[Skipped] = field(default_factory=list)


def gather_memory(paths: Sequence[Path]) -> FoundMemory:
    """Return the memory in every snapshot and every log under the paths, in the order of the ranks.

    After `MAX_REPORTS` entries, no further file is read.
    """
    found = FoundMemory()
    for path, root in walked(paths, found.skipped, set()):
        name = plain(str(path))
        if len(found.ranks) >= MAX_REPORTS:
            found.skipped.append(
                Skipped(
                    name, f"not read: over {MAX_REPORTS:,} memory reports; give fewer paths", unreadable=True
                )
            )
            break
        try:
            here, partitions = _read(path, name)
        except NoDumpError as error:
            found.skipped.append(Skipped(name, str(error), unreadable=True))
        except OSError as error:
            found.skipped.append(Skipped(name, reason(error), unreadable=True))
        else:
            found.ranks += here
            found.partitions += partitions
            if not here:
                found.skipped.append(Skipped(name, "contains no memory values", unreadable=root is None))
    last = 1 << 31
    found.ranks.sort(key=lambda each: (last if each.rank is None else each.rank, each.device or 0, each.file))
    found.partitions.sort(key=lambda each: (each.rank, each.file))
    return found


def _read(path: Path, name: str) -> tuple[list[RankMemory], list[ZeroPartition]]:
    rank = rank_of_path(path)
    with open_file(path) as file:
        contents = Contents(path, packing_of(file.read(HEAD_BYTES)))
    pieces = contents.pieces()
    first = next(pieces, b"")
    if first.startswith(PICKLE_BEGINS):
        return read_snapshot(_whole(first, pieces), name, rank), []
    lines = MemoryLines(name, rank)
    lines.read(_lines(first, pieces))
    return lines.found, list(lines.partitions.values())


def _whole(first: bytes, pieces: Iterator[bytes]) -> bytes:
    parts, size = [first], len(first)
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > MAX_SNAPSHOT_BYTES:
            break
    return b"".join(parts)


def _lines(first: bytes, pieces: Iterator[bytes]) -> Iterator[str]:
    """Yield the lines of a log; of a very long line the middle is left out."""
    held = first
    while True:
        *whole, held = held.replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")
        piece = next(pieces, None)
        if piece is None:
            break
        held = held[:MAX_LINE_CHARACTERS] + piece
    yield held.decode("utf-8", "replace")
