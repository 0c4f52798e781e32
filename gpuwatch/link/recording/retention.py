"""Limits a recording by age and size: the oldest periods between key frames are deleted first."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from gpuwatch.link.recording.tee import MICRO

EVERY_COMMITS = 30
PAGES_AT_ONCE = 2_000
"""Free pages returned to the file system at a time."""


@dataclass
class Retention:
    """The limits of a recording's age and size, which the recorder applies after commits."""

    age_s: float | None = None
    size_bytes: int | None = None
    _commits: int = field(default=0, repr=False)

    def apply(self, file: sqlite3.Connection) -> None:
        """Trim the recording at every `EVERY_COMMITS`-th call, if there is a limit."""
        self._commits += 1
        if self._commits % EVERY_COMMITS == 0 and (self.age_s is not None or self.size_bytes is not None):
            self.trim(file)

    def trim(self, file: sqlite3.Connection) -> None:
        """Delete the periods that exceed the limits; the newest key frame and the data after it stay."""
        keys = [row[0] for row in file.execute("SELECT at FROM key_frame ORDER BY at")]
        newest = file.execute("SELECT max(last) FROM block").fetchone()[0] or 0
        for at in keys[1:]:
            too_old = self.age_s is not None and at < newest - self.age_s * MICRO
            too_large = self.size_bytes is not None and used_bytes(file) > self.size_bytes
            if not (too_old or too_large):
                break
            _drop_before(file, at)
        file.execute(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})").fetchall()


def used_bytes(file: sqlite3.Connection) -> int:
    """Return the number of bytes in the used pages of a recording's file."""
    pages, free, size = (
        file.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _drop_before(file: sqlite3.Connection, at: int) -> None:
    file.execute("BEGIN IMMEDIATE")
    before = "id <= (SELECT block FROM key_frame WHERE at = ?)"
    last = "id < (SELECT max(id) FROM block)"  # the last block stays, else the numbers would start again
    file.execute(f"DELETE FROM block WHERE {before} AND {last}", (at,))  # noqa: S608 - names of our own
    for table, column in (("key_frame", "at"), ("request", "at"), ("answer", "at"), ("gap", "last")):
        file.execute(f"DELETE FROM {table} WHERE {column} < ?", (at,))  # noqa: S608 - names of our own
    file.execute("DELETE FROM incident WHERE at < ?", (at,))
    file.execute("COMMIT")
