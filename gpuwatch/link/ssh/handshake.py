"""Makes a byte stream an encrypted connection with a host whose key is trusted."""

from __future__ import annotations

import threading
import time

import paramiko
from msgspec import Struct

from gpuwatch.link.openssh.host_certificate import SUFFIX
from gpuwatch.link.openssh.known_hosts import (
    HostKeyVerdict,
    HostName,
    KnownHosts,
    describe_key,
)
from gpuwatch.link.openssh.known_hosts_file import HostKeyListError
from gpuwatch.link.openssh.ssh_config import ResolvedHost
from gpuwatch.link.ssh.login_turns import UngreetedError
from gpuwatch.link.ssh.sockets.streams import ByteStream
from gpuwatch.link.ssh.transport.bounded_transport import shown
from gpuwatch.link.ssh.transport.shared_transport import SharedTransport
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.plain import plain
from gpuwatch.shell_command import command_line

# GCM costs half of CTR with a MAC in a log flood; CBC, SHA-1 and MD5 are out
_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
_MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")
_PLAIN_HOST_KEYS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
_HOST_KEYS = (*(name + SUFFIX for name in _PLAIN_HOST_KEYS), *_PLAIN_HOST_KEYS)

_JOIN_S = 2.0


class HostKeyPolicy(Struct, frozen=True):
    """The policy for a host key that is not in known_hosts: accept and record it, or refuse it."""

    accept_new: bool
    config_file: str | None
    """The ssh configuration file to name in the command that accepts a key."""


class TrustedHost(Struct, frozen=True):
    """The fingerprint of a host's verified key (`ED25519 SHA256:...`), and why the key is trusted."""

    key: str
    verified_by: str | None
    """The known_hosts line that verifies the host key; None: it was accepted now."""
    accepted_at: str | None = None
    """`FILE:LINE` of known_hosts where the accepted key was recorded."""


def end(stream: ByteStream, transport: paramiko.Transport) -> None:
    """Close a transport and its stream, and wait up to `_JOIN_S` for the transport's thread.

    May be called twice.
    """
    stream.close()
    transport.close()
    if transport.is_alive() and transport is not threading.current_thread():
        transport.join(_JOIN_S)


def negotiate(
    stream: ByteStream,
    host: ResolvedHost,
    policy: HostKeyPolicy,
    timeout_s: float,
) -> tuple[SharedTransport, TrustedHost]:
    """Exchange keys and verify the host's key; return (transport, trusted key).

    No user name or key of the user is sent.

    Raises:
        CarrierError: The other side does not speak ssh, or its key is not trusted.
    """
    known = KnownHosts(host.user_known_hosts, host.global_known_hosts, host.revoked_host_keys)
    name = HostName(host.hostname, host.port, host.host_key_alias)
    wanted = [algorithm for algorithm in host.host_key_algorithms or _HOST_KEYS if algorithm in _HOST_KEYS]
    if not wanted:
        stream.close()
        raise CarrierError(
            f"HostKeyAlgorithms of {host.query.host} leaves none that is supported here", final=True
        )
    transport = SharedTransport(stream.sock)
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = timeout_s
    transport.channel_timeout = timeout_s
    security = transport.get_security_options()
    security.ciphers = _CIPHERS
    security.digests = _MACS
    try:
        security.key_types = known.order(name, wanted)
    except HostKeyListError as error:
        end(stream, transport)
        raise CarrierError(str(error), final=True) from error
    done = threading.Event()
    try:
        transport.start_client(event=done)
        done.wait(2 * timeout_s)
        if not transport.is_active() or not done.is_set():
            raise _handshake_failure(host, transport.get_exception(), stream)  # noqa: TRY301  # to clean up
        return transport, _trust(transport, known, name, host, policy)
    except BaseException:
        end(stream, transport)
        raise


def _trust(
    transport: paramiko.Transport,
    known: KnownHosts,
    name: HostName,
    host: ResolvedHost,
    policy: HostKeyPolicy,
) -> TrustedHost:
    key = transport.get_remote_server_key()
    blob = key.public_blob.key_blob if key.public_blob is not None else key.asbytes()
    try:
        verdict = known.judge(name, blob, time.time())
        new = verdict.trust == "unknown"
        if verdict.trust == "unknown" and policy.accept_new and host.user_known_hosts:
            verdict = known.record(name, blob, hashed=host.hash_known_hosts, now=time.time())
    except HostKeyListError as error:
        raise CarrierError(str(error), final=True) from error
    except OSError as error:
        raise CarrierError(
            f"the new host key of {host.hostname} cannot be recorded in {host.user_known_hosts[0]}: "
            f"{error.strerror}",
            final=True,
        ) from error
    if verdict.trust != "known" or verdict.entry is None:
        raise CarrierError(_refusal_message(verdict, blob, name, host, policy), final=True)
    if new:
        return TrustedHost(describe_key(blob), None, verdict.entry.place)
    by = "certificate authority" if verdict.certified else "key"
    return TrustedHost(describe_key(blob), f"{by} at {verdict.entry.place}")


def _refusal_message(
    verdict: HostKeyVerdict, blob: bytes, name: HostName, host: ResolvedHost, policy: HostKeyPolicy
) -> str:
    shown, lookup = describe_key(blob), name.lookup
    entry = verdict.entry
    if verdict.trust == "revoked" and entry is not None:
        return (
            f"the host key of {lookup} ({shown}) is revoked at {entry.place} and is never accepted: "
            "the node needs a new host key"
        )
    if verdict.trust == "changed" and entry is not None:
        return (
            f"the host key of {lookup} CHANGED: it shows {shown}, but {entry.place} has "
            f"{describe_key(entry.blob)}. Someone may be listening in. If you know that it was replaced, "
            f"remove the old one: {command_line(['ssh-keygen', '-f', str(entry.file), '-R', lookup])}"
        )
    command = host.ssh_command(policy.config_file, "-o", "StrictHostKeyChecking=ask")
    note = f" ({plain(verdict.note)})" if verdict.note else ""
    if host.strict_host_key_checking not in ("yes", "true", "ask"):
        note += f" (StrictHostKeyChecking {host.strict_host_key_checking} of ssh_config is not followed)"
    return (
        f"the host key of {lookup} is unknown: {shown}{note}. Compare this fingerprint with the node's, then "
        f"accept it with: {command} true - or accept all unknown keys once with --accept-new-host-keys"
    )


def _handshake_failure(host: ResolvedHost, error: Exception | None, stream: ByteStream) -> CarrierError:
    words = stream.last_words()
    if words:
        kind = UngreetedError if "kex_exchange_identification" in words else CarrierError
        return kind(f"the ProxyCommand to {host.query.host} failed: {words}")
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        reason = shown(str(error))
        return CarrierError(
            f"{host.where} and gpuwatch have no algorithm in common ({reason}); upgrade its sshd"
        )
    if error is None or isinstance(error, EOFError) or "banner" in str(error).lower():
        return UngreetedError(
            f"{host.where} closed the connection or sent nothing before the key exchange; "
            "sshd may be overloaded (MaxStartups), or it is not an ssh server"
        )
    return CarrierError(f"the key exchange with {host.where} failed: {shown(str(error))}")
