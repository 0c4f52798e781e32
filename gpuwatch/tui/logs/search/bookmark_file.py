"""Stores bookmarks in a JSON file in the user's state folder, so that they survive a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gpuwatch.own_folders import make_own
from gpuwatch.tui.logs.data.line_window import UNKNOWN
from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.whole_file import lock_beside, read_own, set_aside, write_whole
from gpuwatch.wire import LogLine, Severity
from gpuwatch.wire.codec import decode_strictly
from gpuwatch.wire.limits import Count, Moment, Name, Rank, Text

MAX_FILE_BYTES = 16 << 20
MAX_BOOKMARKS = 500
"""Above this number, the oldest bookmarks are dropped."""


class KeptBookmark(msgspec.Struct, frozen=True):
    """A bookmark as it is stored in the file."""

    node: Name
    file: Name
    offset: Count
    text: Text
    at: Moment | None
    """Time when the line was written, unix seconds on our clock; None: no line above it has a time."""
    rank: Rank | None = None
    level: Severity | None = None

    @property
    def source(self) -> LogSource:
        """The file that contains the bookmarked line, as a source."""
        return LogSource(self.node, self.file, self.rank)

    @property
    def time(self) -> float:
        """`at`, or `UNKNOWN` (minus infinity) if that is None."""
        return UNKNOWN if self.at is None else self.at

    @property
    def line(self) -> LogLine:
        """The bookmarked line, as far as it is stored: offset, text, level."""
        return LogLine(self.offset, self.offset + len(self.text) + 1, self.text, level=self.level)


_decoder = msgspec.json.Decoder(list[KeptBookmark])


class DamagedBookmarksError(ValueError):
    """Raised if the file is not a list of bookmarks, or if one of them is invalid."""


class BookmarkFile:
    """The file with the bookmarks of all sessions of the user; it is read again before every change.

    An unreadable file is left as it is; a damaged one is set aside. Errors are kept in `trouble`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble: str | None = None
        """Why bookmarks are not saved, or what happened to the saved ones; one sentence."""
        self._damage: str | None = None
        """The latter, until it is shown with a change."""

    def read(self) -> Sequence[KeptBookmark]:
        """Return all saved bookmarks, oldest first; empty if the file is missing, unreadable or damaged.

        An unreadable file sets `trouble`; a damaged one is renamed.
        """
        self.trouble = None
        try:
            return decode_strictly(read_own(self.path, MAX_FILE_BYTES), _decoder, DamagedBookmarksError)
        except FileNotFoundError:
            return []
        except OSError as error:
            self.trouble = f"bookmarks cannot be read from {self.path}: {error.strerror}"
        except DamagedBookmarksError as error:
            self._set_aside(error)
        return []

    def change(self, edit: Callable[[list[KeptBookmark]], None]) -> None:
        """Read the bookmarks, apply `edit` to the list, and write it, under a lock. Errors set `trouble`.

        At most the newest `MAX_BOOKMARKS` are kept. Without access to the file nothing is changed.
        """
        try:
            make_own(self.path.parent)
            with lock_beside(self.path):
                kept = list(self.read())
                if self.trouble is not None:
                    return
                edit(kept)
                self.trouble, self._damage = self._damage, None
                text = msgspec.json.format(msgspec.json.encode(kept[-MAX_BOOKMARKS:]), indent=2)
                write_whole(self.path, text + b"\n")
        except OSError as error:
            self.trouble = f"bookmarks cannot be saved in {self.path}: {error.strerror}"

    def _set_aside(self, error: DamagedBookmarksError) -> None:
        try:
            aside = set_aside(self.path)
        except OSError:
            self.trouble = f"{self.path} is not a bookmark file ({error}); correct it or move it away"
        else:
            self._damage = f"{self.path} was not a bookmark file ({error}); it was renamed to {aside.name}"
