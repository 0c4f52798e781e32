"""The incident history on disk: a private, bounded SQLite file that several cockpits may write at once."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.file_trust import own_beside
from gpuwatch.own_folders import make_own
from gpuwatch.session.history.seen_incident import SAME_S, SLACK_S, SeenIncident, is_same

NAME = "incidents.sqlite"
VERSION = 1
MAX_ROWS = 20_000
MAX_COMPARED_ROWS = 32
"""Most rows of a line, and of a place, that an incident is compared with: those that began last."""
MAX_ROW_AGE_S = 400 * 86_400.0
BUSY_S = 5.0
"""Seconds to wait while another cockpit holds the lock, which takes milliseconds normally."""
_COLUMNS = SeenIncident.__struct_fields__
_TYPES = {"gpu": "INTEGER", "first": "REAL", "last": "REAL", "timed": "INTEGER"}
_TABLE = ", ".join(f"{name} {_TYPES.get(name, 'TEXT')}" for name in _COLUMNS)
_NAMES = ", ".join(_COLUMNS)
_MARKS = ", ".join("?" * len(_COLUMNS))


MAX_TEXT_CHARS = 4_096
MAX_TIME, MAX_GPU = 1e11, 1_024
"""Largest time in unix seconds (year 5138) and largest GPU index; both as in the wire format."""


class HistoryError(Exception):
    """Raised if the history cannot be read or written; the message is one sentence with the remedy."""


class IncidentFile:
    """The history file. Every call opens and closes it, so that no lock is held in between."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        """Rows of the last `read` that no gpuwatch wrote; they are left out."""

    def read(self, since: float = 0.0) -> list[SeenIncident]:
        """Return the incidents last seen since a time (unix seconds), the newest first; empty without a file.

        Rows that are no valid incidents are left out; `damaged` is their number.

        Raises:
            HistoryError: the file cannot be read.
        """
        if not self.path.exists():
            return []
        try:
            with closing(self._open()) as file:
                found = [_incident(row) for row in _rows(file, since)]
                self.damaged = found.count(None)
                return [one for one in found if one is not None]
        except (OSError, sqlite3.Error) as error:
            raise self._error("read", error) from error

    def keep(self, incidents: Iterable[SeenIncident], now: float) -> None:
        """Add or update incidents, and delete old ones. `now`: unix seconds.

        Raises:
            HistoryError: the file cannot be written.
        """
        try:
            make_own(self.path.parent)
            self._make()
            with closing(self._open()) as file, file:
                file.execute("BEGIN IMMEDIATE")
                for name in ("incidents_by_code_node_gpu", "incidents_by_code_uuid"):
                    file.execute(f"DROP INDEX IF EXISTS {name}")  # of earlier versions
                for columns in ("code, node, gpu, timed, first", "code, uuid, timed, first", "code, cause"):
                    name = f"incidents_by_{columns.replace(', ', '_')}"
                    file.execute(f"CREATE INDEX IF NOT EXISTS {name} ON incidents ({columns})")
                for one in incidents:
                    _put(file, one)
                _trim(file, now)
        except (OSError, sqlite3.Error) as error:
            raise self._error("written", error) from error

    def _make(self) -> None:
        """Create the file with mode 0600, because SQLite would create it with the mode of the umask."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(self.path, flags, 0o600))

    def _open(self) -> sqlite3.Connection:
        found = self.path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise PermissionError(errno.EPERM, "not a regular file")
        if found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user")
        if found.st_mode & 0o022:
            raise PermissionError(errno.EPERM, "other users can write to it (chmod go-w)")
        own_beside(self.path)
        file = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        file.text_factory = lambda text: text.decode("utf-8", "replace")
        try:
            (version,) = file.execute("PRAGMA user_version").fetchone()
            _check(version)
            if version < VERSION:
                file.execute(f"CREATE TABLE IF NOT EXISTS incidents (id INTEGER PRIMARY KEY, {_TABLE})")
                file.execute("CREATE INDEX IF NOT EXISTS incidents_by_class ON incidents (code, first)")
                file.execute(f"PRAGMA user_version = {VERSION}")
        except BaseException:
            file.close()
            raise
        return file

    def _error(self, what: str, error: OSError | sqlite3.Error) -> HistoryError:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        return HistoryError(f"incidents of earlier sessions cannot be {what} in {self.path}: {why}")


def _check(version: int) -> None:
    if version > VERSION:
        raise PermissionError(errno.EPERM, "a newer gpuwatch has written it")


def _rows(file: sqlite3.Connection, since: float) -> list[tuple[object, ...]]:
    newest = f"SELECT {_NAMES} FROM incidents WHERE last >= ? ORDER BY first DESC LIMIT ?"  # noqa: S608 - our own words
    return file.execute(newest, (since, MAX_ROWS)).fetchall()


def _incident(row: tuple[object, ...]) -> SeenIncident | None:
    """Return the record of a row.

    None if its values are not valid, since SQLite stores any type in any column.
    """
    fields = dict(zip(_COLUMNS, row, strict=True))
    fields["timed"] = bool(fields["timed"])
    try:
        one = msgspec.convert(fields, SeenIncident)
    except DECODE_ERRORS:
        return None
    texts = (each for each in fields.values() if isinstance(each, str))
    is_sound = (
        one.severity in ORDER
        and all(0 <= at <= MAX_TIME for at in (one.first, one.last))
        and 0 <= (one.gpu or 0) <= MAX_GPU
        and all(len(text) <= MAX_TEXT_CHARS for text in texts)
    )
    return one if is_sound else None


def _values(one: SeenIncident) -> tuple[object, ...]:
    return tuple(getattr(one, name) for name in _COLUMNS)


def _put(file: sqlite3.Connection, one: SeenIncident) -> None:
    for number, *row in _may_be_same(file, one):
        before = _incident(tuple(row))
        if before is not None and is_same(before, one):
            changes = (
                one.severity,
                one.headline,
                max(before.last, one.last),
                one.uuid or before.uuid,
                number,
            )
            file.execute(
                "UPDATE incidents SET severity = ?, headline = ?, last = ?, uuid = ? WHERE id = ?", changes
            )
            return
    file.execute(f"INSERT INTO incidents ({_NAMES}) VALUES ({_MARKS})", _values(one))  # noqa: S608 - names of our own


def _may_be_same(file: sqlite3.Connection, one: SeenIncident) -> Iterator[tuple[object, ...]]:
    """Yield (id, columns) of the rows that can be the incident by `is_same`, found by the indexes alone.

    They are those of its line, and those of its place whose exact start is the same or whose period touches.
    """
    rows = f"SELECT id, {_NAMES} FROM incidents WHERE code = ?"  # noqa: S608 - names of our own
    if one.cause:
        of_line = file.execute(f"{rows} AND cause = ? LIMIT ?", (one.code, one.cause, MAX_COMPARED_ROWS))
        yield from of_line.fetchall()
    places: list[tuple[str, tuple[object, ...]]] = [("node IS ? AND gpu IS ?", (one.node, one.gpu))]
    if one.uuid is not None:
        places.append(("uuid = ?", (one.uuid,)))
    touching = one.last + SLACK_S, one.first - SLACK_S
    exact = (one.first + SAME_S, one.first - SAME_S) if one.timed else touching
    for where, place in places:
        here = (f"{rows} AND {where} AND timed = ? AND first <= ?", (one.code, *place))
        yield from _newest(file, here, False, *touching)
        yield from _newest(file, here, True, *exact)


def _newest(
    file: sqlite3.Connection, here: tuple[str, tuple[object, ...]], timed: bool, until: float, since: float
) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a query that began last up to `until`, and were last seen from `since` on."""
    rows, given = here
    newest = f"SELECT * FROM ({rows} ORDER BY first DESC LIMIT ?) WHERE last >= ?"  # noqa: S608 - names of our own
    yield from file.execute(newest, (*given, timed, until, MAX_COMPARED_ROWS, since)).fetchall()


def _trim(file: sqlite3.Connection, now: float) -> None:
    file.execute("DELETE FROM incidents WHERE last < ?", (now - MAX_ROW_AGE_S,))
    (count,) = file.execute("SELECT COUNT(*) FROM incidents").fetchone()
    if count > MAX_ROWS:
        of_node = (
            "SELECT id, last, ROW_NUMBER() OVER (PARTITION BY node ORDER BY last DESC) AS turn FROM incidents"
        )
        oldest = f"SELECT id FROM ({of_node}) ORDER BY turn DESC, last LIMIT ?"  # noqa: S608 - names of our own
        file.execute(f"DELETE FROM incidents WHERE id IN ({oldest})", (count - MAX_ROWS,))  # noqa: S608 - names of our own
