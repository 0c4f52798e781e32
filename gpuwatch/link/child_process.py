"""A carrier over a child process: its stdin and stdout are the stream."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.link.stream.remote_text import whole_lines

STDERR_TAIL_BYTES = 8 * 1024
LEAVE_S = 0.7
"""Seconds for a child to exit after its stdin was closed."""
KILLED_S = 0.5
EXITED_S = 1.0
"""Seconds for which a pipe is read after the child exited, because its descendants may keep it open."""
EXIT_POLL_S = 1.0
"""Seconds between checks of the child where the kernel lacks pidfd (before Linux 5.3, macOS)."""
LAST_WORDS_S = 0.2
"""Seconds to wait for stderr after the end of stdout."""
_CHUNK = 64 * 1024
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


class ChildCarrier:
    """A carrier that runs a child in a process session of its own: it gets no Ctrl-C and cannot prompt."""

    def __init__(self, argv: Sequence[str]) -> None:
        """Start the child process.

        Raises:
            CarrierError: It cannot be started; with the reason.
        """
        self._wake_read, self._wake_write = _wake_pipe()
        try:
            self._child = _spawn(argv)
        except CarrierError:
            self._close_wake_pipe()
            raise
        pipes = (self._child.stdin, self._child.stdout, self._child.stderr)
        self._stdin, self._stdout, self._stderr = (pipe.fileno() for pipe in pipes if pipe is not None)
        self._pidfd = _pidfd(self._child.pid)
        self._exited_at: float | None = None
        # Only our end: a child that does not read must not hold a sender after close.
        os.set_blocking(self._stdin, False)
        self._tail = bytearray()
        self._tail_open = True
        self._closing = False
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._ending = threading.Lock()

    def recv(self, limit: int) -> bytes:
        """Wait for up to `limit` bytes on stdout; return b"" at the end of the stream or child."""
        with self._reading:
            while not self._closing:
                ready = self._wait_for_output()
                if self._exited_at is not None and time.monotonic() - self._exited_at > EXITED_S:
                    self._read_last_output()
                    return b""
                if self._stdout in ready:
                    data = os.read(self._stdout, limit)
                    if not data:
                        self._read_last_output()
                    return data
        return b""

    def send(self, data: bytes) -> None:
        """Write all of `data`; blocks until the child has read enough.

        Raises:
            OSError: The child has gone, or the carrier was closed.
        """
        view = memoryview(data)
        with self._writing:
            while view:
                if self._closing:
                    raise BrokenPipeError("the carrier was closed")
                try:
                    view = view[os.write(self._stdin, view) :]
                except BlockingIOError:
                    writable = select.poll()
                    writable.register(self._stdin, select.POLLOUT)
                    writable.register(self._wake_read, _READABLE)
                    writable.poll()

    def stderr(self) -> str:
        """Return the last lines that the child wrote to stderr."""
        return whole_lines(bytes(self._tail), STDERR_TAIL_BYTES)

    def exit_status(self, timeout_s: float) -> int | None:
        """Return the child's exit status, or minus its signal; None if it still runs after `timeout_s`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._child.wait(timeout_s)
        return None

    def close(self) -> None:
        """Close the pipes, wait up to `LEAVE_S` for the child to exit, kill and reap its process group."""
        with self._ending:
            if self._closing:
                return
            self._closing = True
            os.write(self._wake_write, b"x")
            with self._writing, self._reading:
                self._close_pipes()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(LEAVE_S)
            # Also after the child itself has left: what it started may still be in the group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
            with contextlib.suppress(
                subprocess.TimeoutExpired
            ):  # stuck in the kernel: nothing can end it now
                self._child.wait(KILLED_S)

    def _wait_for_output(self) -> set[int]:
        wanted = {self._stdout: _READABLE, self._wake_read: _READABLE}
        if self._exited_at is not None:
            return self._wait(wanted, EXITED_S)
        if self._pidfd is None:
            ready = self._wait(wanted, EXIT_POLL_S)
            exited = self._child.poll() is not None
        else:
            ready = self._wait({**wanted, self._pidfd: _READABLE})
            exited = self._pidfd in ready
        if exited:
            self._exited_at = time.monotonic()
        return ready

    def _wait(self, wanted: dict[int, int], timeout_s: float | None = None) -> set[int]:
        poll = select.poll()
        for descriptor, events in wanted.items():
            poll.register(descriptor, events)
        if self._tail_open:
            poll.register(self._stderr, _READABLE)
        ready = {fd for fd, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)}
        if self._stderr in ready:
            self._drain_stderr()
        return ready

    def _drain_stderr(self) -> None:
        data = os.read(self._stderr, _CHUNK)
        self._tail_open = bool(data)
        self._tail += data
        del self._tail[:-STDERR_TAIL_BYTES]

    def _read_last_output(self) -> None:
        while self._tail_open and self._wait({self._wake_read: _READABLE}, LAST_WORDS_S) == {self._stderr}:
            pass

    def _close_pipes(self) -> None:
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
        self._close_wake_pipe()

    def _close_wake_pipe(self) -> None:
        os.close(self._wake_read)
        os.close(self._wake_write)


def _pidfd(pid: int) -> int | None:
    """Return a descriptor (pidfd) that becomes readable when the child exits; None: the kernel has none."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _wake_pipe() -> tuple[int, int]:
    try:
        return os.pipe()
    except OSError as error:
        raise CarrierError(f"no file descriptor is left ({error.strerror}); raise `ulimit -n`") from error


def _spawn(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            list(argv), stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
    except FileNotFoundError as error:
        raise CarrierError(
            f"{argv[0]} was not found on this machine; install it or correct `command:`", final=True
        ) from error
    except OSError as error:
        raise CarrierError(f"{argv[0]} could not be run: {error.strerror or error}") from error
