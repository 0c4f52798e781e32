"""Copies what a container prints into a file of this machine, by `kubectl logs`."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from gpuwatch.plain import plain

FIRST_LINES = 50_000
"""Lines of the past that are read at the start."""
MAX_FILE_BYTES = 64 << 20
"""Beyond this size the copy begins anew, as a rotated log."""
AGAIN_S, LONGEST_AGAIN_S = 3.0, 60.0
"""Seconds until kubectl is started again after it ended: it ends with the container, and with its server."""
ENDS_S = 2.0
RUNS_WELL_S = 2.0
"""kubectl that neither prints nor ends for this long follows a container without output."""
STAMP_CHARS = 64
"""Most characters of the time before a line (RFC 3339 with nanoseconds)."""
MAX_HELD_BYTES = 1 << 20
"""Bytes of an unfinished line that are held back; of a longer one the rest is not copied."""
_CHUNK = 64 << 10
_STDERR_BYTES = 2000


class LogCopy:
    """A thread that runs `kubectl logs --follow` and appends to a file; lines begin with their time."""

    def __init__(self, argv: Sequence[str], path: Path, report: Callable[[str, float], None]) -> None:
        """Create the copier; `start` starts it.

        Args:
            argv: `kubectl logs` with the pod and its container, without options about lines and times.
            path: The file, in a folder that only this user can read.
            report: Called on the thread with "" when kubectl runs well, and with why it failed and the
                monotonic time of the next attempt.
        """
        self._argv, self._path, self._report = tuple(argv), path, report
        self._newest = b""
        """The time of the last whole line, as kubectl printed it."""
        self._held: list[bytes] = []
        """The pieces of the unfinished line."""
        self._held_bytes = 0
        self._size = 0
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name=f"kubectl logs {path.stem}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._path.touch(0o600)
        self._thread.start()

    def close(self) -> None:
        """End kubectl and the thread."""
        with self._lock:
            self._closing.set()
            child = self._child
        if child is not None:
            _kill(child)
        self._thread.join(ENDS_S)

    def _run(self) -> None:
        wait_s = AGAIN_S
        while not self._closing.is_set():
            try:
                copied, problem = self._copy()
            except OSError as error:
                copied, problem = 0, f"{self._argv[0]}: {error.strerror or error}"
            wait_s = AGAIN_S if copied else min(LONGEST_AGAIN_S, wait_s * 2)
            if problem and not self._closing.is_set():
                self._report(problem, time.monotonic() + wait_s)
            self._closing.wait(wait_s)

    def _copy(self) -> tuple[int, str]:
        """Run kubectl once from the newest copied line on; return (bytes appended, why it failed or "")."""
        since = [f"--since-time={self._newest.decode()}"] if self._newest else [f"--tail={FIRST_LINES}"]
        argv = [*self._argv, "--follow", "--timestamps", *since]
        with tempfile.TemporaryFile() as errors, self._path.open("ab") as file:
            with self._lock:
                if self._closing.is_set():
                    return 0, ""
                child = self._child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                )
            try:
                copied = self._append(child, file)
                status = child.wait(ENDS_S)
            except subprocess.TimeoutExpired:
                status = 0
            finally:
                _kill(child)
                child.wait()
                if child.stdout is not None:
                    child.stdout.close()
            errors.seek(max(0, errors.tell() - _STDERR_BYTES))
            lines = errors.read(_STDERR_BYTES).decode("utf-8", "replace").strip().splitlines()
        stated = plain(lines[-1]) if lines else f"exit status {status}"
        return copied, stated if status else ""

    def _append(self, child: subprocess.Popen[bytes], file: BinaryIO) -> int:
        """Append the child's output to the file until it ends, and return the number of bytes.

        A file that would exceed `MAX_FILE_BYTES` begins again, empty. kubectl is reported once as running
        well: after its first output, or after `RUNS_WELL_S` without any.
        """
        if child.stdout is None:
            return 0
        source, before, copied, reported = child.stdout.fileno(), self._newest, 0, False
        self._held, self._held_bytes = [], 0
        while True:
            ready = select.select([source], [], [], None if reported else RUNS_WELL_S)[0]
            data = os.read(source, _CHUNK) if ready else None
            if data == b"":
                return copied
            lines = b"" if data is None else self._new_lines(data, before)
            if self._size + len(lines) > MAX_FILE_BYTES:
                file.truncate(0)
                self._size = 0
            file.write(lines)
            file.flush()
            self._size += len(lines)
            copied += len(lines)
            if not reported:
                reported = True
                self._report("", 0.0)

    def _new_lines(self, data: bytes, before: bytes) -> bytes:
        """Return the whole lines of `data` whose time is newer than `before`, and those without a time.

        kubectl asks by whole seconds and repeats the lines of the last one.
        """
        *ends, rest = data.split(b"\n")
        kept = []
        for end in ends:
            self._hold(end)
            line = b"".join(self._held)
            self._held, self._held_bytes = [], 0
            stamp = line[:STAMP_CHARS].partition(b" ")[0]
            if stamp[:4].isdigit() and stamp.isascii():
                if before and stamp <= before:
                    continue
                self._newest = stamp
            kept.append(line + b"\n")
        self._hold(rest)
        return b"".join(kept)

    def _hold(self, piece: bytes) -> None:
        piece = piece[: MAX_HELD_BYTES - self._held_bytes]
        if piece:
            self._held.append(piece)
            self._held_bytes += len(piece)


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
