"""Writes a recording: a thread commits each block as it comes, and goes on after a full disk."""

from __future__ import annotations

import contextlib
import errno
import socket
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpuwatch import __version__
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.recording.lease import Lease
from gpuwatch.link.recording.retention import Retention
from gpuwatch.link.recording.schema import RecordingError, create, open_for_writing
from gpuwatch.link.recording.tee import (
    AnswerItem,
    DictionaryItem,
    IncidentMark,
    Item,
    KeyFrame,
    RecordBlock,
    RequestItem,
    size_of,
)
from gpuwatch.whole_file import write_whole

COMMIT_S = 1.0
"""Longest time between commits (seconds); a block is committed at once."""
WAITING_BYTES = 64 << 20
"""Bytes buffered while the disk is full or slow; then the oldest are dropped, and the gap is recorded."""
CLOSE_S = 10.0


class RecorderState(Struct, frozen=True):
    """The state of a recording; the writer's thread replaces it as a whole."""

    path: Path
    frames: int = 0
    written_bytes: int = 0
    """Approximate bytes of all written items."""
    waiting_bytes: int = 0
    lost_items: int = 0
    trouble: str = ""
    """Why nothing can be written now; empty: no problem."""


class RecordingWriter:
    """Writes the items of a session's stream into a recording. `put` items, then `close` it."""

    def __init__(
        self,
        path: Path,
        plan: Plan,
        nodes: Mapping[str, int],
        retention: Retention | None = None,
        heartbeat: Path | None = None,
    ) -> None:
        """Open a new file, or continue one of the same nodes.

        Args:
            path: The recording.
            plan: Of the session.
            nodes: Node names -> their numbers in the tee.
            retention: Limits of age and size; None: keep everything.
            heartbeat: A file into which the time (unix seconds) of each commit is written.

        Raises:
            RecordingError: it cannot be written, is of other nodes, or another recorder writes it; not raised
                for a full disk: the file is opened when there is space.
        """
        self._items: deque[Item] = deque()
        self._waiting_bytes = 0
        self._lost = 0
        self._in_commit = 0
        """Number of items, the oldest, that the thread commits now: these are not dropped."""
        self._gap: tuple[int, int] | None = None
        """First and last time of blocks dropped and not yet recorded as a gap."""
        self._changed = threading.Condition()
        self._closing = False
        self._hasty = False
        """True if a block waits that the thread has not tried to commit."""
        self._retention = retention or Retention()
        self._heartbeat = heartbeat
        self.state = RecorderState(path)
        self._open: Callable[[], tuple[sqlite3.Connection, Lease]] = partial(opened, path, plan, nodes)
        self._to: tuple[sqlite3.Connection, Lease] | None = None
        """The open file; None until there is space for it."""
        try:
            self._to = self._open()
        except RecordingError as error:
            if not lacks_space(error):
                raise
            self.state = replace(self.state, trouble=str(error))
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def put(self, item: Item) -> None:
        """Queue an item; a block is committed at once, with everything before it.

        If too much waits, the oldest items are lost.
        """
        with self._changed:
            self._items.append(item)
            self._waiting_bytes += size_of(item)
            if isinstance(item, RecordBlock):
                self._hasty = True
                self._changed.notify()
            while self._waiting_bytes > WAITING_BYTES and len(self._items) > self._in_commit + 1:
                self._lose(self._items[self._in_commit])
                del self._items[self._in_commit]

    def _lose(self, item: Item) -> None:
        self._waiting_bytes -= size_of(item)
        self._lost += 1
        if isinstance(item, RecordBlock):
            self._gap = spanned(self._gap, (item.first, item.last))

    def close(self) -> None:
        """Write the remaining items and close the file; waits at most `CLOSE_S`."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._hasty, COMMIT_S)
                closing, self._hasty = self._closing, False
                items, gap = list(self._items), self._gap
                self._in_commit, self._gap = len(items), None
            self._commit(items, gap)
            if closing:
                break
        if self._to is not None:
            file, lease = self._to
            with contextlib.suppress(sqlite3.Error):
                lease.release()
            with contextlib.suppress(sqlite3.Error):
                file.close()

    def _commit(self, items: Sequence[Item], gap: tuple[int, int] | None) -> None:
        try:
            file, lease = self._to = self._to or self._open()
            with rolled_back(file):
                file.execute("BEGIN IMMEDIATE")
                write_items(file, items)
                if gap is not None:
                    file.execute("INSERT INTO gap VALUES (?, ?, ?)", (*gap, self.state.trouble))
                lease.beat()
                file.execute("COMMIT")
        except (sqlite3.Error, RecordingError) as error:
            with self._changed:
                self._in_commit, self._gap = 0, spanned(gap, self._gap)
                waiting = self._waiting_bytes
            self.state = replace(self.state, trouble=str(error), waiting_bytes=waiting, lost_items=self._lost)
            return
        with self._changed:
            self._in_commit = 0
            for item in items:
                self._items.popleft()
                self._waiting_bytes -= size_of(item)
        self.state = RecorderState(
            self.state.path,
            self.state.frames + sum(item.frames for item in items if isinstance(item, RecordBlock)),
            self.state.written_bytes + sum(map(size_of, items)),
            self._waiting_bytes,
            self._lost,
        )
        with contextlib.suppress(sqlite3.Error):  # as on a full disk; tried again
            self._retention.apply(file)
        if self._heartbeat is not None:
            try:
                write_whole(self._heartbeat, f"{time.time():.0f}\n".encode())
            except OSError as error:
                self.state = replace(self.state, trouble=f"{self._heartbeat}: {error.strerror}")


def spanned(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the (first, last) time of the period that covers two gaps; None is no gap."""
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def opened(path: Path, plan: Plan, nodes: Mapping[str, int]) -> tuple[sqlite3.Connection, Lease]:
    """Return (database, lease) of a recording that was created or continued, ready to be written.

    Raises:
        RecordingError: It cannot be written, is of other nodes, or another recorder writes it.
    """
    file = open_for_writing(path) if path.exists() else create(path)
    try:
        lease = Lease(file, path)
        describe(file, path, plan, nodes)
    except (RecordingError, sqlite3.Error) as error:
        file.close()
        if isinstance(error, sqlite3.Error):
            raise RecordingError(f"{path}: {error}") from error
        raise
    return file, lease


def lacks_space(error: RecordingError) -> bool:
    """Return True if an error has the cause that the disk is full, or a quota or size limit is reached.

    Also for SQLite's "disk I/O error", which may have another cause.
    """
    why = error.__cause__
    if isinstance(why, OSError):
        return why.errno in (errno.ENOSPC, errno.EDQUOT)
    return str(why) in ("database or disk is full", "disk I/O error")


@contextlib.contextmanager
def rolled_back(file: sqlite3.Connection) -> Iterator[None]:
    """Roll back the file's transaction if the `with` block raises."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            file.execute("ROLLBACK")
        raise


def describe(file: sqlite3.Connection, path: Path, plan: Plan, nodes: Mapping[str, int]) -> None:
    """Store the description of a recording in its file: version, host, plan, nodes.

    Raises:
        RecordingError: The file contains other nodes.
    """
    facts = {
        "gpuwatch": __version__,
        "host": socket.gethostname(),
        "plan": msgspec.json.encode(recorded_plan(plan)).decode(),
    }
    file.execute("BEGIN IMMEDIATE")
    file.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", facts.items())
    known = dict(file.execute("SELECT name, id FROM node").fetchall())
    if known and known != dict(nodes):
        file.execute("ROLLBACK")
        raise RecordingError(f"{path}: holds other nodes; name another file with -o")
    if not known:
        file.executemany("INSERT INTO node (name, id) VALUES (?, ?)", nodes.items())
    file.execute("COMMIT")


def write_items(file: sqlite3.Connection, items: Iterable[Item]) -> None:
    """Write items of the stream into a recording; call it within a transaction."""
    write = file.execute
    for item in items:
        match item:
            case RecordBlock():
                write(
                    "INSERT INTO block (first, last, wall, frames, findings, data) VALUES (?, ?, ?, ?, ?, ?)",
                    (item.first, item.last, item.wall, item.frames, item.findings, item.data),
                )
            case KeyFrame():
                write(
                    "INSERT OR REPLACE INTO key_frame (at, block, data)"
                    " VALUES (?, (SELECT coalesce(max(id), 0) FROM block), ?)",
                    (item.at, item.data),
                )
            case RequestItem():
                write(
                    "INSERT INTO request (at, node, number, kind, body) VALUES (?, ?, ?, ?, ?)",
                    (item.at, item.node, item.number, item.kind, item.body),
                )
            case DictionaryItem():
                write("INSERT OR IGNORE INTO dictionary VALUES (?, ?)", (item.id, item.data))
            case AnswerItem():
                write(
                    "INSERT INTO answer (at, node, number, data) VALUES (?, ?, ?, ?)",
                    (item.at, item.node, item.number, item.data),
                )
            case IncidentMark():
                write(
                    "INSERT INTO incident VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
                    " severity = excluded.severity, headline = excluded.headline",
                    (item.id, item.number, item.at, item.first, item.severity, item.headline),
                )


def recorded_plan(plan: Plan) -> Plan:
    """Return a copy of the plan without rules and connection settings: users, keys, commands, URLs."""
    nodes = tuple(NodeSpec(spec.name, spec.link, labels=spec.labels, slots=spec.slots) for spec in plan.nodes)
    return replace(plan, nodes=nodes, rules=(), state=None, serving=())
