"""A TCP connection with suitable options.

Paramiko's own would be slow for small messages and not detect dead peers.
"""

from __future__ import annotations

import socket
import threading
from typing import TypeAlias

from gpuwatch.link.openssh.ssh_config import ResolvedHost
from gpuwatch.link.ssh.sockets.streams import shut_down
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.plain import plain

# paramiko never notices a dead peer by itself; the kernel gives up on unacknowledged data after this
_USER_TIMEOUT_MS = 12_000
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
_Address: TypeAlias = "tuple[str | int | bytes, ...]"


class TcpStream:
    """A socket tuned for many small messages and for detecting dead peers."""

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
        """Connect to the first of the host's addresses that answers; `close` from another thread aborts it.

        Raises:
            CarrierError: The name does not resolve, or no server answers there.
        """
        failure: OSError | None = None
        for family, protocol, address in _addresses(host):
            failure = self._try(family, protocol, address, host.bind_address, timeout_s)
            if failure is None:
                return
        raise CarrierError(f"{host.hostname} port {host.port}: {_advice(failure, timeout_s)}") from failure

    def _try(
        self, family: int, protocol: int, address: _Address, bind: str | None, timeout_s: float
    ) -> OSError | None:
        sock = socket.socket(family, socket.SOCK_STREAM, protocol)
        with self._lock:
            if self._closed:
                sock.close()
                return ConnectionAbortedError("closed")
            self._sock = sock
        try:
            sock.settimeout(timeout_s)
            if bind:
                sock.bind((bind, 0))
            sock.connect(address)
            self._tune()
        except OSError as error:
            sock.close()
            return error
        return None

    def _tune(self) -> None:
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        wanted = {**_KEEPALIVE, "TCP_USER_TIMEOUT": _USER_TIMEOUT_MS}
        for name, value in wanted.items():
            option = getattr(socket, name, None)  # macOS lacks some
            if option is not None:
                self.sock.setsockopt(socket.IPPROTO_TCP, option, value)

    def close(self) -> None:
        """Close the socket; shutting it down first wakes a thread blocked in connect, recv or send."""
        with self._lock:
            self._closed = True
            if self._sock is not None:
                shut_down(self._sock)

    def last_words(self) -> str:
        """Return "": TCP has no stderr."""
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


def _advice(error: OSError | None, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s; the node is down or a firewall drops the packets"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; nothing listens there; check the port, and that sshd is running"
    return f"{_reason(error)}; check the network and the address"


def _reason(error: Exception | None) -> str:
    return plain(getattr(error, "strerror", None) or str(error))
