"""A command on a node, over a session channel of an ssh connection."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable

import paramiko

from gpuwatch.link.openssh.ssh_config import ResolvedHost
from gpuwatch.link.ssh.connection import Connection
from gpuwatch.link.ssh.sockets.direct_pipe import DirectPipe
from gpuwatch.link.ssh.transport.bounded_transport import BoundError, shown
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.link.stream.login_facts import LoginFacts
from gpuwatch.link.stream.remote_text import whole_lines

_STDERR_LIMIT = 4096
_CHUNK = 32_768


class SshCarrier:
    """The carrier of a command that runs over ssh; it owns its connection."""

    def __init__(self, connection: Connection, channel: paramiko.Channel, pipe: DirectPipe) -> None:
        """Create the carrier; `pipe` is the buffer of the channel's output."""
        self.facts: LoginFacts = connection.facts
        self._connection = connection
        self._channel = channel
        self._pipe = pipe
        self._stderr = b""
        self._stderr_lock = threading.Lock()

    def recv(self, limit: int) -> bytes:
        """Wait for up to `limit` bytes; return b"" when the command or connection has ended.

        Raises:
            OSError: the server exceeded a bound.
        """
        data = self._channel.recv(limit)
        broken = None if data else self._connection.transport.get_exception()
        if isinstance(broken, BoundError):
            raise OSError(str(broken)) from broken
        if not data or self._channel.recv_stderr_ready():
            self._take_stderr()
        return data

    def receive(self, take: Callable[[bytes], None]) -> None:
        """Call `take` with all output, in the connection's thread; return at the end of the output.

        Raises:
            OSError: the server exceeded a bound.
            Exception: what `take` raised, which ends the output.
        """
        self._pipe.hand_to(take)
        while self.recv(_CHUNK):
            pass  # zeros in place of what was taken: `recv` gives the server its window back
        if self._pipe.error is not None:
            raise self._pipe.error

    def ended_alone(self) -> bool:
        """Return True if sshd reported the end of the command's output: the connection outlived it."""
        return bool(self._channel.eof_received)

    def waiting(self) -> bool:
        """Return True if bytes wait in the connection's socket; False also behind a jump host."""
        sock, poll = self._connection.stream.sock, select.poll()
        if not isinstance(sock, socket.socket):
            return False
        with contextlib.suppress(OSError, ValueError):  # it is closed
            poll.register(sock, select.POLLIN)
            return bool(poll.poll(0))
        return False

    def send(self, data: bytes) -> None:
        """Write all of `data`.

        Raises:
            OSError: the connection is gone, or the carrier was closed.
        """
        try:
            self._channel.sendall(data)
        except (EOFError, paramiko.SSHException) as error:
            raise OSError("the connection was lost") from error
        if not self._connection.alive:  # paramiko silently drops data sent on a dead connection
            raise OSError("the connection was lost")

    def stderr(self) -> str:
        """Return the last lines of the command's stderr."""
        self._take_stderr()
        with self._stderr_lock:
            return whole_lines(self._stderr, _STDERR_LIMIT)

    def exit_status(self, timeout_s: float) -> int | None:
        """Return the exit status of the command, as sshd reports it.

        None if a signal ended the command, or no status came within `timeout_s`.
        """
        if not self._channel.status_event.wait(timeout_s) or self._channel.exit_status < 0:
            return None
        return self._channel.exit_status

    def close(self) -> None:
        """Close the connection; sshd then ends the session, and the command reads the end of its stdin."""
        self._connection.close()

    def _take_stderr(self) -> None:
        # stderr shares the channel's window with stdout: left unread, 2 MiB of it would stop stdout too
        with self._stderr_lock, contextlib.suppress(EOFError, OSError, paramiko.SSHException):
            while self._channel.recv_stderr_ready():
                chunk = self._channel.recv_stderr(_CHUNK)
                if not chunk:
                    return
                self._stderr = (self._stderr + chunk)[-_STDERR_LIMIT:]


def start_command(connection: Connection, host: ResolvedHost, command: str, timeout_s: float) -> SshCarrier:
    """Start a shell command line in the login shell and return its carrier.

    On failure it closes the connection.

    Raises:
        CarrierError: The server opens no session, or not within `timeout_s`.
    """
    # exec_command itself waits without a limit
    stalled = threading.Event()

    def give_up() -> None:
        stalled.set()
        connection.stream.close()

    watchdog = threading.Timer(timeout_s, give_up)
    watchdog.daemon = True
    watchdog.start()
    try:
        channel = connection.transport.open_session(timeout=timeout_s)
        channel.in_buffer = pipe = DirectPipe(channel.recv_stderr_ready)
        channel.exec_command(command)
        connection.transport.share()
    except (paramiko.SSHException, EOFError, OSError) as error:
        connection.close()
        if stalled.is_set() or "timeout" in str(error).lower():
            raise CarrierError(
                f"{host.where} accepted the login but did not answer the request for a command "
                f"within {timeout_s:.0f} s; its sshd stalls, or the node is overloaded"
            ) from error
        detail = shown(str(error)) or "it closed the connection"
        raise CarrierError(
            f"{host.where} accepted the login but started no command ({detail}); "
            "check MaxSessions in its sshd_config and the account's shell"
        ) from error
    except BaseException:
        connection.close()
        raise
    finally:
        watchdog.cancel()
    return SshCarrier(connection, channel, pipe)
