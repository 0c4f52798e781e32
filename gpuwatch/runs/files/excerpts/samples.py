"""Samples lines from the beginning and end of each log, where banners and final messages stand."""

from __future__ import annotations

import contextlib

from gpuwatch.runs.files.encodings import as_utf8
from gpuwatch.runs.files.exports.log_tables import LOG_TABLE
from gpuwatch.runs.files.exports.status_lines import STATUS
from gpuwatch.runs.files.json_documents import NOTEBOOK
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.files.margins import MARGIN
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.files.packing import DECODERS, UTF_16, Contents, is_section

MAX_LINES = 40_000
"""Most lines that are sampled over all files; they take about a second."""
FIRST_LINES = 400
LAST_LINES = 200
MIN_LINES = 20
MAX_PACKED_BYTES = 1 << 20
"""Most bytes on disk of a packed file whose end is unpacked for samples too."""
SAMPLE_BYTES = 1 << 16
"""Number of bytes that are read at each end of a file."""
CHARACTER_BYTES = 2
"""Number of bytes of a UTF-16 character; the byte order mark is one character."""


def sample_of(log: LogPath, files: int) -> list[bytes]:
    """Return the sample lines of one log out of `files` logs; the more logs, the fewer lines.

    Empty if the log is unreadable.
    """
    share = max(MIN_LINES, MAX_LINES // max(1, files))
    with contextlib.suppress(OSError):  # the scan itself reports the reason
        return sample(log, min(FIRST_LINES, share), min(LAST_LINES, share))
    return []


def sample(log: LogPath, first: int, last: int) -> list[bytes]:
    """Return the `first` first and `last` last lines of a file, within `SAMPLE_BYTES` at each end.

    For a large packed file only first ones; empty for a packing that is not sampled.

    Raises:
        OSError: the file cannot be read.
    """
    if is_section(log.packing):
        lines = b"".join(Contents(log.path, log.packing).pieces()).lstrip(b"\n").splitlines()
        return lines if len(lines) <= first + last else lines[:first] + lines[-last:]
    if log.packing is not None and log.packing != UTF_16:
        if log.packing not in DECODERS and log.packing not in (NOTEBOOK, STATUS, LOG_TABLE, MARGIN):
            return []
        pieces = Contents(log.path, log.packing).pieces()
        head = next(pieces, b"")
        if log.size > MAX_PACKED_BYTES:
            return head[:SAMPLE_BYTES].splitlines()[:first]
        end = head
        for piece in pieces:
            end = (end[-SAMPLE_BYTES:] + piece)[-2 * SAMPLE_BYTES :]
        begin = head[:SAMPLE_BYTES].splitlines()
        if end is head and len(head) <= SAMPLE_BYTES:
            return begin if len(begin) <= first + last else begin[:first] + begin[-last:]
        return begin[:-1][:first] + end[-SAMPLE_BYTES:].splitlines()[1:][-last:]
    with open_file(log.path) as file:
        head = file.read(SAMPLE_BYTES)
        lines = _text(head).splitlines()
        if log.size <= SAMPLE_BYTES:
            return lines if len(lines) <= first + last else lines[:first] + lines[-last:]
        file.seek(max(SAMPLE_BYTES, log.size - SAMPLE_BYTES) & -CHARACTER_BYTES)
        tail = file.read(SAMPLE_BYTES)
    wide = head[:CHARACTER_BYTES] if log.packing == UTF_16 else b""
    return lines[:-1][:first] + _text(wide + tail).splitlines()[1:][-last:]


def _text(data: bytes) -> bytes:
    """Return the bytes as UTF-8 if they begin with the mark of UTF-16, else unchanged."""
    return b"".join(as_utf8(iter([data])))
