"""Jump hosts: one shared connection each, with a direct-tcpip channel per node."""

from __future__ import annotations

import threading
from collections.abc import Callable

import paramiko

from gpuwatch.link.agent.login_slots import ConnectSlots
from gpuwatch.link.openssh.ssh_config import ResolvedHost
from gpuwatch.link.ssh.authentication import NeedsAnswersError
from gpuwatch.link.ssh.connection import Connection
from gpuwatch.link.ssh.sockets.streams import JumpStream
from gpuwatch.link.ssh.transport.bounded_transport import shown
from gpuwatch.link.stream.carrier import CarrierError

_MAX_LOGINS = 8  # nodes that log in through one jump host at once; more only makes each slower


class JumpHost:
    """A jump host's shared connection: connects at first use, and again if the connection died."""

    def __init__(self, host: ResolvedHost, connect: Callable[[], Connection]) -> None:
        self.host = host
        self.logins = ConnectSlots(_MAX_LOGINS)
        self._connect = connect
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._adopted = False
        self._attempts = 0
        self._failure: CarrierError | None = None

    def connect(self) -> None:
        self._living()

    def adopt(self, connection: Connection) -> None:
        """Store a connection to the jump host that was opened with the user's answers, before the screen."""
        with self._lock:
            self._connection, self._adopted = connection, True

    def open(self, target: ResolvedHost, timeout_s: float) -> JumpStream:
        """Return a stream to a node behind this host; connect the host if needed.

        Raises:
            CarrierError: the jump host cannot be reached, or it cannot reach the node.
        """
        try:
            connection = self._living()
        except CarrierError as error:
            raise CarrierError(self._why_not(error), final=error.final) from error
        try:
            channel = connection.transport.open_channel(
                "direct-tcpip", (target.hostname, target.port), ("127.0.0.1", 0), timeout=timeout_s
            )
        except paramiko.ChannelException as error:
            raise CarrierError(
                f"the jump host {self.host.where} cannot reach {target.hostname} port {target.port} "
                f"({shown(error.text)}); check the address, and AllowTcpForwarding there"
            ) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            if not connection.alive:
                raise CarrierError(f"the jump host {self.host.where} closed the connection") from error
            raise CarrierError(
                f"the jump host {self.host.where} did not open a connection to {target.hostname} port "
                f"{target.port} within {timeout_s:g} s"
            ) from error
        return JumpStream(channel)

    def close(self) -> None:
        """Close the shared connection; the streams of nodes behind it then end."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _why_not(self, error: CarrierError) -> str:
        if self._adopted and isinstance(error, NeedsAnswersError):
            return (
                f"the connection to the jump host {self.host.where} ended, and its password or code is "
                "asked for only when gpuwatch starts: restart gpuwatch"
            )
        return f"the jump host is not available: {error}"

    def _living(self) -> Connection:
        seen = self._attempts
        with self._lock:
            if self._connection is not None and self._connection.alive:
                return self._connection
            if self._attempts != seen and self._failure is not None:
                # someone else tried while this thread waited: 200 nodes must not try a dead host in turn
                raise self._failure.with_traceback(None)
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            try:
                self._connection = self._connect()
            except CarrierError as error:
                self._failure = error
                raise
            else:
                self._failure = None
                return self._connection
            finally:
                self._attempts += 1
