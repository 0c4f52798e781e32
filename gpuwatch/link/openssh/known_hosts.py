"""Verifies host keys with OpenSSH's semantics of known_hosts.

`KnownHosts.judge` returns a verdict about the key that a server presented, without prompting; only `record`
accepts keys.
"""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gpuwatch.link.openssh.host_certificate import SUFFIX, BadCertificateError, key_type, read_certificate
from gpuwatch.link.openssh.known_hosts_file import (
    HostKeyListError,
    KnownHostsLine,
    append_key,
    lines_about,
    read_key,
    read_list,
)

_DEFAULT_PORT = 22
_KRL_MAGIC = b"SSHKRL\n\0"
_recording = threading.Lock()


class HostKeyVerdict(Struct, frozen=True):
    """The verdict of known_hosts on a host key: known, unknown, changed or revoked; and the deciding line."""

    trust: Literal["known", "unknown", "changed", "revoked"]
    entry: KnownHostsLine | None = None
    """The deciding line."""
    certified: bool = False
    """True if verified through a certificate authority."""
    note: str = ""
    """Why the certificate that the host showed was not accepted."""


class HostName(Struct, frozen=True):
    """The name by which a host is looked up."""

    hostname: str
    port: int = _DEFAULT_PORT
    alias: str | None = None

    @property
    def lookup(self) -> str:
        """Return the name in known_hosts notation: lower case, `[host]:port` unless port 22; or the alias."""
        if self.alias:
            return self.alias.lower()
        if self.port == _DEFAULT_PORT:
            return self.hostname.lower()
        return f"[{self.hostname.lower()}]:{self.port}"

    @property
    def principal(self) -> str:
        """Return the name that a host certificate must contain."""
        return self.alias or self.hostname.lower()

    def without_port(self) -> HostName | None:
        """Return the same host with port 22 for OpenSSH's second lookup; None if that is the same.

        A key that is known for the bare name is valid on any port.
        """
        if self.alias or self.port == _DEFAULT_PORT:
            return None
        return HostName(self.hostname)


class KnownHosts:
    """The known_hosts files for one host, the user's first."""

    def __init__(
        self,
        user_files: Sequence[Path],
        global_files: Sequence[Path],
        revoked_keys: Path | None = None,
    ) -> None:
        self._user_files = tuple(user_files)
        self._files = (*user_files, *global_files)
        self._revoked_keys = revoked_keys

    def judge(self, host: HostName, blob: bytes, now: float) -> HostKeyVerdict:
        """Return the verdict on a key or certificate in wire format.

        `now` (unix seconds) is for certificate validity.

        Raises:
            HostKeyListError: a list of host keys cannot be used.
        """
        if self._revoked_keys is not None and not _shown_keys(blob).isdisjoint(
            revoked_blobs(self._revoked_keys)
        ):
            return HostKeyVerdict("revoked", KnownHostsLine("@revoked", "*", blob, self._revoked_keys, 0))
        verdict = self._judge_name(host, blob, now)
        bare = host.without_port()
        if verdict.trust == "unknown" and bare is not None:
            second = self._judge_name(bare, blob, now)
            if second.trust in ("known", "revoked"):
                return second
            return HostKeyVerdict("unknown", note=verdict.note or second.note)
        return verdict

    def order(self, host: HostName, algorithms: Iterable[str]) -> tuple[str, ...]:
        """Return the host key algorithms in the order to offer, those that a line can confirm first.

        Certificate algorithms are offered only if a @cert-authority line matches the host.
        """
        bare = host.without_port()
        entries = self.entries(host) or (self.entries(bare) if bare is not None else [])
        authority = any(entry.marker == "@cert-authority" for entry in entries)
        known = {key_type(entry.blob) for entry in entries if not entry.marker}
        first, last = [], []
        for algorithm in algorithms:
            if algorithm.endswith(SUFFIX):
                if authority:
                    first.append(algorithm)
            elif _type_of_algorithm(algorithm) in known:
                first.append(algorithm)
            else:
                last.append(algorithm)
        return (*first, *last)

    def entries(self, host: HostName) -> list[KnownHostsLine]:
        """Return the lines about a host, in order.

        Raises:
            HostKeyListError: as `lines_about`.
        """
        name = host.lookup
        return [entry for file in self._files for entry in lines_about(file, name)]

    def record(self, host: HostName, blob: bytes, *, hashed: bool, now: float) -> HostKeyVerdict:
        """Append an unknown key to the user's first file (created with mode 0600) and return the new verdict.

        A key that is not unknown is not recorded; its verdict is returned. `hashed`: hash the name. `now`:
        unix seconds.

        Raises:
            HostKeyListError: as `judge`.
            OSError: the file cannot be written.
        """
        with _recording:  # two nodes may share one address
            verdict = self.judge(host, blob, now)
            if verdict.trust != "unknown":
                return verdict
            plain = blob
            if key_type(blob).endswith(SUFFIX):
                plain = read_certificate(blob).key
            append_key(self._user_files[0], host.lookup, plain, hashed=hashed)
            return self.judge(host, blob, now)

    def _judge_name(self, host: HostName, blob: bytes, now: float) -> HostKeyVerdict:
        entries = self.entries(host)
        shown = _shown_keys(blob)
        for entry in entries:
            if entry.marker == "@revoked" and entry.blob in shown:
                return HostKeyVerdict("revoked", entry)
        note = ""
        if key_type(blob).endswith(SUFFIX):
            try:
                certificate = read_certificate(blob)
            except BadCertificateError as error:
                return HostKeyVerdict("unknown", note=f"its certificate cannot be read: {error}")
            for entry in entries:
                if entry.marker == "@cert-authority" and entry.blob == certificate.authority:
                    refusal = certificate.refusal(host.principal, now)
                    if refusal is None:
                        return HostKeyVerdict("known", entry, certified=True)
                    note = f"its certificate is not accepted: {refusal}"
                    break
            blob = certificate.key
        plain = [entry for entry in entries if not entry.marker]
        for entry in plain:
            if entry.blob == blob:
                return HostKeyVerdict("known", entry)
        return (
            HostKeyVerdict("changed", plain[0], note=note) if plain else HostKeyVerdict("unknown", note=note)
        )


def revoked_blobs(file: Path) -> frozenset[bytes]:
    """Return the keys of a RevokedHostKeys file.

    Raises:
        HostKeyListError: it cannot be read or is a binary list (KRL), which only OpenSSH reads.
    """
    try:
        content = read_list(file)
    except OSError as error:
        raise HostKeyListError(
            f"RevokedHostKeys {file} cannot be read ({error.strerror}): "
            "make it readable or take the line out of ssh_config"
        ) from error
    if content.startswith(_KRL_MAGIC):
        raise HostKeyListError(
            f"RevokedHostKeys {file} is a binary list that only OpenSSH reads: "
            "use `link: command` with ssh for this node"
        )
    blobs = (read_key(line.split()) for line in content.decode(errors="replace").splitlines())
    return frozenset(blob for blob in blobs if blob is not None)


def describe_key(blob: bytes) -> str:
    """Return a key as text, `ED25519 SHA256:...`, with the fingerprint that `ssh-keygen -l` prints.

    Of a certificate, the key in it.
    """
    kind = key_type(blob).removesuffix(SUFFIX)
    digest = base64.b64encode(hashlib.sha256(_plain(blob)).digest()).decode().rstrip("=")
    return f"{kind.removeprefix('ssh-').split('-')[0].upper()} SHA256:{digest}"


def _plain(blob: bytes) -> bytes:
    if not key_type(blob).endswith(SUFFIX):
        return blob
    try:
        return read_certificate(blob).key
    except BadCertificateError:
        return blob


def _shown_keys(blob: bytes) -> frozenset[bytes]:
    """Return the keys to look up as revoked: the key itself and, of a certificate, its key and authority."""
    if not key_type(blob).endswith(SUFFIX):
        return frozenset((blob,))
    try:
        certificate = read_certificate(blob)
    except BadCertificateError:
        return frozenset((blob,))
    return frozenset((blob, certificate.key, certificate.authority))


def _type_of_algorithm(algorithm: str) -> str:
    return "ssh-rsa" if algorithm.startswith("rsa-sha2-") else algorithm
