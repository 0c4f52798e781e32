"""The lease of a recording: one writer at a time, with a heartbeat in the file for outside checks."""

from __future__ import annotations

import os
import secrets
import socket
import sqlite3
import time
from pathlib import Path

import msgspec

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.link.recording.schema import RecordingError
from gpuwatch.plain import plain

STALE_S = 15.0
"""A recorder whose heartbeat is older is dead, even if its process is not visible (seconds)."""


class Holder(msgspec.Struct, frozen=True):
    """The process that records into a file, as stored in the file."""

    token: str
    host: str
    pid: int
    started: float
    """Start of the recorder's process (clock ticks since boot), to distinguish reused pids."""
    beat: float
    """Time of the recorder's last commit (unix seconds)."""

    @property
    def words(self) -> str:
        """Return the text for messages: `process 4711 on gpu-login`."""
        return plain(f"process {self.pid} on {self.host}")

    @property
    def gone(self) -> bool:
        """Return True if the recording process ran on this machine and has ended.

        False if it runs, or is on another machine.
        """
        return self.host == socket.gethostname() and process_start(self.pid) != self.started

    def alive(self, now: float) -> bool:
        """Return True if the recording process counts as running: not `gone`, and its last commit is recent.

        `now`: unix seconds.
        """
        return not self.gone and now - self.beat < STALE_S


class Lease:
    """The right to write into a recording; only one recorder has it."""

    def __init__(self, file: sqlite3.Connection, path: Path) -> None:
        """Acquire the lease.

        Raises:
            RecordingError: another recorder that is alive has it.
        """
        self._file = file
        pid = os.getpid()
        self._own = Holder(secrets.token_hex(8), socket.gethostname(), pid, process_start(pid), time.time())
        file.execute("BEGIN IMMEDIATE")
        try:
            other = holder(file)
            if other is not None and other.alive(time.time()):
                text = f"{path}: {other.words} is recording into this file; name another with -o"
                raise RecordingError(text)  # noqa: TRY301 - the lease is given up below
            self.beat()
        except BaseException:
            file.execute("ROLLBACK")
            raise
        file.execute("COMMIT")

    def beat(self) -> None:
        """Write the time of this commit into the file; call it within a transaction.

        Raises:
            RecordingError: another recorder has acquired the lease since, as after a suspended machine.
        """
        other = holder(self._file)
        if other is not None and other.token != self._own.token and other.alive(time.time()):
            raise RecordingError(f"{other.words} has taken over the recording")
        self._own = msgspec.structs.replace(self._own, beat=time.time())
        value = msgspec.json.encode(self._own).decode()
        self._file.execute("INSERT OR REPLACE INTO meta VALUES ('recorder', ?)", (value,))

    def release(self) -> None:
        """Delete the lease, so that another recorder can acquire it."""
        self._file.execute("DELETE FROM meta WHERE name = 'recorder'")


def holder(file: sqlite3.Connection) -> Holder | None:
    """Return the holder of the lease, alive or not; None if there is none."""
    row = file.execute("SELECT value FROM meta WHERE name = 'recorder'").fetchone()
    try:
        return None if row is None else msgspec.json.decode(row[0], type=Holder)
    except DECODE_ERRORS:
        return None


def process_start(pid: int) -> float:
    """Return the start of a process on this machine (clock ticks since boot); 0.0 if unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0.0
    return float(stat.rpartition(")")[2].split()[19])
