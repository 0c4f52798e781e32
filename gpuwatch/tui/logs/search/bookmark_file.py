"""Bookmarks survive a session: one JSON file in the person's state folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gpuwatch.own_folders import make_own
from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.whole_file import read_own, write_whole
from gpuwatch.wire import LogLine, Severity

MOST_BYTES = 16 << 20
MOST_KEPT = 500
"""Of more, those that were set first are forgotten."""


class KeptBookmark(msgspec.Struct, frozen=True):
    """A bookmark as the file holds it."""

    node: str
    file: str
    offset: int
    text: str
    at: float
    """When the line was written, unix seconds on our clock."""
    rank: int | None = None
    level: Severity | None = None

    @property
    def source(self) -> LogSource:
        """The file that holds the line."""
        return LogSource(self.node, self.file, self.rank)

    @property
    def line(self) -> LogLine:
        """The line, as far as it is kept."""
        return LogLine(self.offset, self.offset + len(self.text) + 1, self.text, level=self.level)


class BookmarkFile:
    """Read at the start, and read and written at every change: other cockpits of the person change it, too.

    A file that cannot be read is left as it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble: str | None = None
        """Why bookmarks are not kept; one sentence."""

    def read(self) -> Sequence[KeptBookmark]:
        """All that are kept, those that were set first before others; none where there is no file."""
        self.trouble = None
        try:
            return msgspec.json.decode(read_own(self.path, MOST_BYTES), type=list[KeptBookmark])
        except FileNotFoundError:
            return []
        except OSError as error:
            self.trouble = f"bookmarks cannot be read from {self.path}: {error.strerror}"
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.trouble = f"{self.path} holds no bookmarks ({error}); correct it or move it away"
        return []

    def change(self, edit: Callable[[list[KeptBookmark]], None]) -> None:
        """Apply an edit to what is kept now."""
        kept = list(self.read())
        if self.trouble is not None:
            return
        edit(kept)
        try:
            make_own(self.path.parent)
            text = msgspec.json.format(msgspec.json.encode(kept[-MOST_KEPT:]), indent=2)
            write_whole(self.path, text + b"\n")
        except OSError as error:
            self.trouble = f"bookmarks cannot be kept in {self.path}: {error.strerror}"
