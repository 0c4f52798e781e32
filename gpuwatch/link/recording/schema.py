"""The SQLite file of a recording: tables, versions, opening, and checked reading of rows."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from gpuwatch.file_trust import others_may_add, own_beside
from gpuwatch.plain import plain
from gpuwatch.whole_file import read_bounded

SCHEMA_VERSION = 1
"""Raised when an older gpuwatch could not read the file."""
APPLICATION_ID = 0x47505557
"""`GPUW` in the file header: distinguishes recordings from other SQLite files."""
_HEADER_BYTES = 100
BUSY_S = 5.0
"""Seconds that readers and writers wait for each other."""

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE node (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE dictionary (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE block (
    id INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, wall INTEGER NOT NULL,
    frames INTEGER NOT NULL, findings INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE INDEX block_last ON block (last, findings);
CREATE TABLE key_frame (
    at INTEGER PRIMARY KEY, block INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE TABLE request (
    id INTEGER PRIMARY KEY, at INTEGER NOT NULL, node INTEGER NOT NULL, number INTEGER NOT NULL,
    kind TEXT NOT NULL, body BLOB NOT NULL
);
CREATE INDEX request_node ON request (node, kind, at);
CREATE TABLE answer (
    id INTEGER PRIMARY KEY, at INTEGER NOT NULL, node INTEGER NOT NULL, number INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX answer_request ON answer (node, number, at);
CREATE TABLE incident (
    id TEXT PRIMARY KEY, number INTEGER NOT NULL, at INTEGER NOT NULL, first REAL NOT NULL,
    severity TEXT NOT NULL, headline TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE gap (first INTEGER NOT NULL, last INTEGER NOT NULL, reason TEXT NOT NULL);
"""
"""Times are microseconds of recorded time; `block.wall` is wall clock minus recorded time at its end."""

Row: TypeAlias = tuple[Any, ...]
MAX_NUMBER = 10**17
"""Larger than any time (microseconds up to the year 5138), id or count that a recorder writes."""
MAX_VALUE_BYTES = 64 << 20
"""Largest value; a key frame of 1,000 nodes has about 5 MB."""
MAX_READ_BYTES = 256 << 20
"""Maximum bytes of rows that are read at once."""
TYPES: dict[str, type | tuple[type, ...]] = {"i": int, "r": (int, float), "t": str, "b": bytes}
"""Column letter -> Python type."""


MAX_MESSAGE = 6000
"""Characters of a message: a path has at most 4,096."""


class RecordingError(Exception):
    """Raised if a recording cannot be created or opened; the message names the file and the remedy."""

    def __init__(self, message: str) -> None:
        """Sanitize `message` and cut it at `MAX_MESSAGE`: it may quote a recording of anybody."""
        left_out = len(message) - MAX_MESSAGE
        tail = f" ... ({left_out:,} further characters)" if left_out > 0 else ""
        super().__init__(plain(f"{message[:MAX_MESSAGE]}{tail}"))


def is_recording(path: Path) -> bool:
    """Return True if a file is a recording, complete or not; False also if it cannot be read."""
    try:
        header = read_bounded(path, _HEADER_BYTES)
    except OSError:
        return False
    return header[:15] == b"SQLite format 3" and header[68:72] == APPLICATION_ID.to_bytes(4, "big")


def create(path: Path) -> sqlite3.Connection:
    """Create a recording that only its owner can read; return the open database.

    Raises:
        RecordingError: The file exists, or it cannot be written.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError as error:
        raise RecordingError(f"{path}: file exists") from error
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error
    try:
        is_continued(path)
        file = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        file.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _for_writing(file)
        file.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        is_continued(path)
    except (sqlite3.Error, RecordingError) as error:
        with contextlib.suppress(OSError):
            path.unlink()
        raise error if isinstance(error, RecordingError) else RecordingError(f"{path}: {error}") from error
    return file


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Return the open database of an existing recording, to continue it.

    Raises:
        RecordingError: It is not a recording, of a newer version, or cannot be written.
    """
    if not is_recording(path):
        raise RecordingError(f"{path}: not a recording; name another file with -o")
    is_continued(path)
    try:
        file = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        check_version(file, path)
        check_tables(file, path)
        _for_writing(file)
        is_continued(path)
    except sqlite3.Error as error:
        raise RecordingError(f"{path}: {error}") from error
    return file


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Return the open database of a recording, also a growing or cut one, or one in a read-only folder.

    Raises:
        RecordingError: It is not a recording, of a newer version, or damaged.
    """
    if not is_recording(path):
        why = "not a recording" if path.is_file() else "no such file"
        raise RecordingError(f"{path}: {why}")
    problem: sqlite3.Error | None = None
    alone = "mode=ro&immutable=1"
    ways = [("mode=ro", False), (alone, False), (alone, True)]
    if not is_continued(path) and others_may_add(path):
        del ways[0]  # files that another user adds beside it later are not read
    for options, cut in ways:
        name = f"{path.absolute().as_uri()}?{options}"
        try:
            file = sqlite3.connect(
                name, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            if cut:  # else SQLite reads nothing of a file with fewer pages than it states
                file.execute("PRAGMA writable_schema = ON")
            check_version(file, path)
            check_tables(file, path)
            is_continued(path)
        except sqlite3.Error as error:
            problem = error
        else:
            return file
    raise RecordingError(f"{path}: cannot be read as a recording: {problem}") from problem


def is_continued(path: Path) -> bool:
    """Return True if SQLite keeps a part of the recording in files beside it.

    A recorder writes then, or was killed.

    Raises:
        RecordingError: another user could have made such a file, which could replace the recording's content.
    """
    try:
        return own_beside(path)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error


def check_version(file: sqlite3.Connection, path: Path) -> int:
    """Return the schema version of a recording.

    Raises:
        RecordingError: It is newer than this gpuwatch can read.
    """
    version = int(file.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise RecordingError(
            f"{path}: format {version} of a newer gpuwatch; this one reads up to {SCHEMA_VERSION}: upgrade it"
        )
    return version


def check_tables(file: sqlite3.Connection, path: Path) -> None:
    """Check that a file has exactly the tables that a recorder makes: views and triggers are programs.

    Raises:
        RecordingError: A table is missing or defined differently, or there are other objects than tables.
    """
    file.execute("PRAGMA trusted_schema = OFF")
    with contextlib.closing(sqlite3.connect(":memory:")) as made:
        made.executescript(TABLES)
        expected = _objects(made)
    found = _objects(file)
    if found != expected:
        odd = sorted({each[1] for each in (found - expected) + (expected - found)})
        names = plain(", ".join(odd)[:200])
        raise RecordingError(f"{path}: damaged, or not written by gpuwatch: unexpected definition of {names}")


def _objects(file: sqlite3.Connection) -> Counter[tuple[str, str, str, str]]:
    """Return (type, name, table, definition) of each object of a file's schema, with its count."""
    try:
        rows = file.execute("SELECT type, name, tbl_name, ifnull(sql, '') FROM sqlite_master").fetchall()
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError(f"the definition of a table: {error}") from error
    return Counter(
        (str(kind), str(name), str(table), " ".join(str(sql).split())) for kind, name, table, sql in rows
    )


def _for_writing(file: sqlite3.Connection) -> None:
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = FULL")
    file.execute("PRAGMA journal_size_limit = 16777216")


class Rows:
    """Reads rows of checked types, since SQLite stores any type in any column; drops invalid rows."""

    def __init__(self, file: sqlite3.Connection) -> None:
        """Create a reader of the rows in `file`, an open recording."""
        self._file = file
        self.damaged = 0
        """Number of unreadable rows and failed queries."""
        if hasattr(file, "setlimit"):  # from Python 3.11 on
            file.setlimit(getattr(sqlite3, "SQLITE_LIMIT_LENGTH", 0), MAX_VALUE_BYTES)

    def all(self, types: str, sql: str, *values: object) -> list[Row]:
        """Return the valid rows of a query; `types` has a letter of `TYPES` for each column.

        Rows after `MAX_READ_BYTES` are left out and count as damaged: rows of a small file can share pages.
        """
        found: list[Row] = []
        size = 0
        for row in self.each(types, sql, *values):
            size += sum(len(value) for value in row if isinstance(value, bytes | str))
            if size > MAX_READ_BYTES:
                self.damaged += 1
                break
            found.append(row)
        return found

    def one(self, types: str, sql: str, *values: object) -> Row | None:
        """Return the first valid row of a query (`types`: see `all`), or None."""
        return next(self.each(types, sql, *values), None)

    def bound(self, column: str, table: str, which: str) -> int | None:
        """Return the `min` or `max` (`which`) of a numeric column; None if the table is empty.

        Text sorts after all numbers: the second query, over all rows, is for a file that contains one.
        """
        sql = f"SELECT {which}({column}) FROM {table}"  # noqa: S608 - the names are those of `TABLES`
        found = self._first(sql)
        if found is not None and not sound("i", (found,)):
            self.damaged += 1
            found = self._first(
                f"{sql} WHERE typeof({column}) = 'integer' AND abs({column} / 2) < {MAX_NUMBER // 2}"
            )
        return found if isinstance(found, int) else None

    def _first(self, sql: str) -> object:
        row = next(self._read(sql), None)
        return None if row is None else row[0]

    def each(self, types: str, sql: str, *values: object) -> Iterator[Row]:
        """Yield the valid rows of a query one at a time, without the size limit of `all`."""
        for row in self._read(sql, *values):
            if sound(types, row):
                yield row
            else:
                self.damaged += 1

    def _read(self, sql: str, *values: object) -> Iterator[Row]:
        try:
            yield from self._file.execute(sql, values)
        except (sqlite3.Error, UnicodeDecodeError):  # a truncated file: the rows before the cut are used
            self.damaged += 1


def sound(types: str, row: Row) -> bool:
    """Return True if each value of a row has the type of its letter in `types`, and numbers are plausible."""
    return all(
        isinstance(value, TYPES[letter])
        and (not isinstance(value, int | float) or -MAX_NUMBER <= value <= MAX_NUMBER)
        for letter, value in zip(types, row, strict=True)
    )
