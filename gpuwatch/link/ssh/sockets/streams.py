"""Byte streams for ssh connections: ProxyCommand and jump host; `tcp.py` has the usual one."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from typing import Protocol

import paramiko

from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.link.stream.remote_text import shown_lines

_GRACE_S = 0.5  # for a proxy to clean up, such as ssh its control socket
_REAP_S = 2.0
_LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT


class ByteStream(Protocol):
    """A byte stream for paramiko that any thread can close."""

    @property
    def sock(self) -> socket.socket | paramiko.Channel:
        """Return the socket or channel of the stream."""
        ...

    def close(self) -> None:
        """Wake threads blocked on the stream and release it; may be called twice and from any thread."""
        ...

    def last_words(self) -> str:
        """Return the last lines of a proxy's stderr; "" without a proxy."""
        ...


class ProxyStream:
    """A ProxyCommand's child process as a stream, over a socket pair, so that its death is an end of file."""

    def __init__(self, command: str) -> None:
        """Start the child.

        Raises:
            CarrierError: it cannot be started.
        """
        self._sock, theirs = socket.socketpair()
        self._stderr, stderr = os.pipe()
        os.set_blocking(self._stderr, False)
        # not read while the child runs: excess output is lost instead of blocking the child
        os.set_blocking(stderr, False)
        try:
            self._child = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=stderr,
                start_new_session=True,  # no terminal to prompt on, and one group to end
                env={**os.environ, "SSH_ASKPASS_REQUIRE": "never"},
            )
        except OSError as error:
            self._sock.close()
            os.close(self._stderr)
            raise CarrierError(f"the ProxyCommand cannot be started: {error.strerror}") from error
        finally:
            theirs.close()
            os.close(stderr)
        self._lock = threading.Lock()
        self._words = ""
        self._closed = False

    @property
    def sock(self) -> socket.socket:
        """Return our end of the socket pair."""
        return self._sock

    def close(self) -> None:
        """End and reap the child."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            shut_down(self._sock)
            self._end_group()
            self._drain()
            os.close(self._stderr)

    def last_words(self) -> str:
        """Return the last two lines of the child's stderr."""
        with self._lock:
            if not self._closed:
                self._drain()
            return " / ".join(shown_lines(self._words, 2))

    def _end_group(self) -> None:
        pid = self._child.pid
        with contextlib.suppress(ProcessLookupError, ChildProcessError, PermissionError):
            os.killpg(pid, signal.SIGTERM)
            until = time.monotonic() + _GRACE_S
            while time.monotonic() < until and not os.waitid(os.P_PID, pid, _LOOK):
                time.sleep(0.01)
            os.killpg(pid, signal.SIGKILL)  # the child is not reaped yet, so the group's id is still its own
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_REAP_S)

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._stderr, 65536):
                self._words = (self._words + chunk.decode(errors="replace"))[-4096:]


class JumpStream:
    """A direct-tcpip channel of a jump host's connection."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    @property
    def sock(self) -> paramiko.Channel:
        """The channel."""
        return self._channel

    def close(self) -> None:
        """Close the channel; the jump host then closes its connection to the node."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()

    def last_words(self) -> str:
        """Return "": a channel has no stderr."""
        return ""


def shut_down(sock: socket.socket) -> None:
    """Close a socket; shutdown wakes threads blocked on it, which close alone does not."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
