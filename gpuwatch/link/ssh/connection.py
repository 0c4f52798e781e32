"""An authenticated ssh connection and its stream."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.link.openssh.ssh_config import ResolvedHost
from gpuwatch.link.ssh.authentication import Answers, authenticate
from gpuwatch.link.ssh.handshake import HostKeyPolicy, end, negotiate
from gpuwatch.link.ssh.keys.keyring import Identity
from gpuwatch.link.ssh.sockets.streams import ByteStream
from gpuwatch.link.ssh.transport.shared_transport import SharedTransport
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.link.stream.login_facts import LoginFacts

# paramiko wakes each connection's thread this often: its own 0.1 s costs 29 % of a core at 1000 nodes
_POLL_S = 5.0


@dataclass(frozen=True)
class Connection:
    """An authenticated ssh connection, made by `log_in`; any thread may close it."""

    stream: ByteStream
    transport: SharedTransport
    facts: LoginFacts
    _closing: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def alive(self) -> bool:
        """Return True until the connection was closed or has failed; a silent peer is not noticed."""
        return self.transport.is_active()

    def close(self) -> None:
        """Close the connection and wait for its thread; may be called twice."""
        with self._closing:
            end(self.stream, self.transport)


class Credentials(Struct, frozen=True):
    """The keys, answers and host key policy that a login may use."""

    identity: Identity
    answers: Answers
    policy: HostKeyPolicy


def log_in(
    stream: ByteStream,
    host: ResolvedHost,
    credentials: Credentials,
    timeout_s: float,
    *,
    jump: str | None = None,
    login_timeout_s: float | None = None,
) -> Connection:
    """Verify the host's key, authenticate, and return the connection; closes the stream on failure.

    Args:
        stream: A new stream from which nothing was read.
        host: The host whose key is expected.
        credentials: Keys and answers that may be used.
        timeout_s: For each step of the handshake (seconds).
        jump: The jump hosts on the way, for the facts.
        login_timeout_s: For a login where the user answers; None: `timeout_s`.

    Raises:
        CarrierError: with the reason.
    """
    transport, trusted = negotiate(stream, host, credentials.policy, timeout_s)
    transport.auth_timeout = login_timeout_s or timeout_s
    facts = LoginFacts(
        host.user,
        host.hostname,
        host.port,
        jump,
        host_key=trusted.key,
        verified_by=trusted.verified_by,
        accepted_at=trusted.accepted_at,
        authenticated_by="",
    )
    try:
        method = authenticate(transport, host, credentials.identity, credentials.answers)
        stream.sock.settimeout(_POLL_S)
    except OSError as error:
        Connection(stream, transport, facts).close()
        raise CarrierError(
            f"{host.where} closed the connection right after the login; see sshd's log there"
        ) from error
    except BaseException:
        Connection(stream, transport, facts).close()
        raise
    return Connection(stream, transport, replace(facts, authenticated_by=method))
