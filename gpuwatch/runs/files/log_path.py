"""A log file as the walk over the folders found it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LogPath:
    """A file that is to be read."""

    path: Path
    name: str
    """As it was given: the argument and the way from there, made harmless, unlike that of any other file."""
    inner: str
    """The part of the name that describes the file: what lies above the folder that was named does not."""
    size: int
    """Of the file itself, bytes."""
    mtime: float
    """Unix seconds: nothing in the file is younger."""
    packing: str | None = None
    """gzip, zstd, xz, bzip2, utf-16, a section, a JSON document; None: plain."""
    dated: float | None = None
    """The last time with a year that was seen in its beginning or end."""
    until: float = 0.0
    """Nothing in it is more than a day younger, as far as the lines of all files report; the year of times
    that have none follows from it. `mtime` where no line states otherwise: a copy's is that of copying."""
    owner: int = -1
    """User id of the file's owner; -1: unknown, or others than the owner may write to it."""
    saved_step: int | None = None
    """Of the state of a Hugging Face `Trainer`: the step at which it was saved."""
