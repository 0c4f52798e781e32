"""The byte streams that an ssh connection runs over: TCP, a ProxyCommand's child, a channel of a jump host."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from typing import Protocol, TypeAlias

import paramiko

from gpuwatch.link.carrier import CarrierError
from gpuwatch.link.ssh_config import ResolvedHost, printable

# paramiko never notices a dead peer by itself; the kernel gives up on unacknowledged data after this
_USER_TIMEOUT_MS = 12_000
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
_REAP_S = 2.0
_Address: TypeAlias = "tuple[str | int | bytes, ...]"


class Stream(Protocol):
    """What paramiko is given to talk over, and how to end it."""

    @property
    def sock(self) -> socket.socket | paramiko.Channel:
        """Reads and writes bytes."""
        ...

    def greeted(self, timeout_s: float) -> bool:
        """Wait until the far side has said something, without taking it."""
        ...

    def close(self) -> None:
        """Wake whoever blocks on the stream and free it; safe to call twice and from any thread."""
        ...

    def last_words(self) -> str:
        """What a proxy said on stderr; "" where there is none."""
        ...


class TcpStream:
    """A socket of our own, tuned for many small messages and for noticing a dead peer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._closed = False

    @property
    def sock(self) -> socket.socket:
        """The connected socket."""
        if self._sock is None:
            raise RuntimeError("connect first")
        return self._sock

    def connect(self, host: ResolvedHost, timeout_s: float) -> None:
        """Connect; `close` from another thread ends it early.

        Raises:
            CarrierError: the name does not resolve or nobody answers there.
        """
        failure: OSError | None = None
        for family, protocol, address in _addresses(host):
            try:
                self._connect(family, protocol, address, host.bind_address, timeout_s)
            except OSError as error:
                failure = error
            else:
                self._tune()
                return
        raise CarrierError(f"{host.hostname} port {host.port}: {_advice(failure, timeout_s)}") from failure

    def _connect(
        self, family: int, protocol: int, address: _Address, bind: str | None, timeout_s: float
    ) -> None:
        sock = socket.socket(family, socket.SOCK_STREAM, protocol)
        with self._lock:
            if self._closed:
                sock.close()
                raise ConnectionAbortedError("closed")
            self._sock = sock
        try:
            sock.settimeout(timeout_s)
            if bind:
                sock.bind((bind, 0))
            sock.connect(address)
        except OSError:
            sock.close()
            raise

    def _tune(self) -> None:
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        wanted = {**_KEEPALIVE, "TCP_USER_TIMEOUT": _USER_TIMEOUT_MS}
        for name, value in wanted.items():
            option = getattr(socket, name, None)  # macOS lacks some
            if option is not None:
                self.sock.setsockopt(socket.IPPROTO_TCP, option, value)

    def greeted(self, timeout_s: float) -> bool:
        """Wait for the first byte."""
        return _peek(self.sock, timeout_s)

    def close(self) -> None:
        """Shut down first: that wakes a thread blocked in connect, recv or send, close alone does not."""
        with self._lock:
            self._closed = True
            if self._sock is not None:
                _shut(self._sock)

    def last_words(self) -> str:
        """Nothing: TCP has no stderr."""
        return ""


class ProxyStream:
    """A ProxyCommand's child with one end of a socket pair as stdin and stdout, so that its death is an end of file."""

    def __init__(self, command: str) -> None:
        """Start the child.

        Raises:
            CarrierError: it cannot be started.
        """
        self._sock, theirs = socket.socketpair()
        self._stderr, stderr = os.pipe()
        os.set_blocking(self._stderr, False)
        os.set_blocking(
            stderr, False
        )  # a talkative child loses words instead of blocking: nobody reads them live
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
        """Our end of the pair."""
        return self._sock

    def greeted(self, timeout_s: float) -> bool:
        """Wait for the first byte."""
        return _peek(self._sock, timeout_s)

    def close(self) -> None:
        """End and reap the child."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            _shut(self._sock)
            for sign in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._child.pid, sign)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(_REAP_S / 4 if sign == signal.SIGTERM else _REAP_S)
            self._drain()
            os.close(self._stderr)

    def last_words(self) -> str:
        """The last lines of the child's stderr."""
        with self._lock:
            if not self._closed:
                self._drain()
            return " / ".join(printable(line) for line in self._words.strip().splitlines()[-2:])

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

    def greeted(self, timeout_s: float) -> bool:  # noqa: ARG002  # a channel cannot be looked into without taking
        """True at once."""
        return True

    def close(self) -> None:
        """Close the channel; the jump host then closes its connection to the node."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()

    def last_words(self) -> str:
        """Nothing: a channel has no stderr."""
        return ""


def _addresses(host: ResolvedHost) -> list[tuple[int, int, _Address]]:
    family = _FAMILIES.get(host.address_family, socket.AF_UNSPEC)
    try:
        found = socket.getaddrinfo(host.hostname, host.port, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise CarrierError(
            f"the name {host.hostname} does not resolve ({_reason(error)}): "
            "check the address in the hosts file, or the DNS"
        ) from error
    return [(kind, protocol, address) for kind, _, protocol, _, address in found]


def _peek(sock: socket.socket, timeout_s: float) -> bool:
    try:
        sock.settimeout(timeout_s)
        return bool(sock.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def _advice(error: OSError | None, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s; the node is down or a firewall drops the packets"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; nothing listens there, check that sshd runs and the port"
    return f"{_reason(error)}; check the network and the address"


def _reason(error: Exception | None) -> str:
    return printable(getattr(error, "strerror", None) or str(error))


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
