"""A log file as found by the folder walk."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class LogPath(Struct, frozen=True):
    """A log file to read, or a section of one."""

    path: Path
    name: str
    """Display name: the path as given, sanitized and unique."""
    inner: str
    """The path below the folder that was named, which describes the file; folders above do not."""
    size: int
    """Size on disk in bytes."""
    mtime: float
    """Modification time (unix seconds); an upper bound for the times in it."""
    packing: str | None = None
    """The packing: gzip, zstd, xz, bzip2, utf-16, a section, a JSON document; None: plain."""
    dated: float | None = None
    """The last timestamp with a year at the beginning or end of the file (unix seconds)."""
    until: float = 0.0
    """Upper bound of the file's times (unix seconds), to within a day; it gives the year of other timestamps.

    It is the file's last timestamp, else the job's; `mtime` if that is at most a day later or none is known.
    """
    owner: int = -1
    """User id of the owner; -1: unknown, or others may write the file."""
    saved_step: int | None = None
    """For a Hugging Face `Trainer` state: the step at which it was saved."""
    fault: str | None = None
    """The fault of gpuwatch over its path, or when its content was classified; None: there was none."""
