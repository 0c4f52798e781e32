"""Splits files into parts for several workers."""

from __future__ import annotations

from msgspec import Struct

from gpuwatch.agent.logs.files.holes import data_from
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.placement.learned_tags.learn import LearnedTag

PART_BYTES = 16 << 20
"""Number of bytes of a plain file that one worker reads at a time."""


class FilePart(Struct, frozen=True):
    """The lines of a file that begin within `start` to `end` (bytes); `end` None: up to the file's end."""

    log: LogPath
    start: int = 0
    end: int | None = None
    first_lines: int = 0
    """Lines parsed for progress beyond the share by size."""
    files: int = 1
    """Number of files in the scan, which share the sample lines."""
    tags: tuple[LearnedTag, ...] = ()
    """The tags of the folder's writers."""
    day_first: bool = False
    """Whether the day comes first in dates of two small numbers."""


def parts_of(log: LogPath) -> list[FilePart]:
    """Return a plain file split into parts for several workers; a small or packed file is one part."""
    if log.packing is not None or log.size <= 2 * PART_BYTES:
        return [FilePart(log)]
    starts = stored_parts(log)
    ends = [*(start + PART_BYTES for start in starts[:-1]), None]
    return [FilePart(log, start, end) for start, end in zip(starts, ends, strict=True)]


def stored_parts(log: LogPath) -> list[int]:
    """Return the offsets of the parts of a plain file that contain data; always the first."""
    starts = [0]
    try:
        with open_file(log.path) as file:
            at = PART_BYTES
            while (at := data_from(file.fileno(), at, log.size)) < log.size:
                starts.append(at // PART_BYTES * PART_BYTES)
                at = starts[-1] + PART_BYTES
    except OSError:
        return [0]  # the reader of its lines reports the reason
    return starts
