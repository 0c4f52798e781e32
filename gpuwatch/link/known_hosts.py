"""Host keys with OpenSSH's meaning of known_hosts (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT).

`KnownHosts.judge` gives a verdict about the key a server showed; nobody is asked, and only `record` accepts.
Lines that cannot be read are skipped, as OpenSSH does.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from gpuwatch.link.host_certificate import SUFFIX, BadCertificateError, key_type, read_certificate

Marker = Literal["", "@cert-authority", "@revoked"]
_MARKERS: tuple[Marker, ...] = ("@cert-authority", "@revoked")
_DEFAULT_PORT = 22
_KRL_MAGIC = b"SSHKRL\n\0"
_recording = threading.Lock()


@dataclass(frozen=True)
class Entry:
    """One line of a known_hosts file."""

    marker: Marker
    hosts: str
    blob: bytes
    file: Path
    line: int
    salted: tuple[bytes, bytes] | None = None
    """Salt and digest, where the host's name is hashed."""

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"

    def matches(self, name: str) -> bool:
        """Whether the line is about this lookup name (lower case, `[host]:port` off port 22)."""
        if self.salted is not None:
            salt, digest = self.salted
            return hmac.digest(salt, name.encode(), "sha1") == digest
        return _patterns_match(self.hosts, name)


@dataclass(frozen=True)
class Verdict:
    """What known_hosts says about a key."""

    trust: Literal["known", "unknown", "changed", "revoked"]
    entry: Entry | None = None
    """The line that decided it."""
    certified: bool = False
    """Known through a certificate authority."""
    note: str = ""
    """Why a certificate that was shown did not help."""


@dataclass(frozen=True)
class HostName:
    """What a host is looked up by."""

    hostname: str
    port: int = _DEFAULT_PORT
    alias: str | None = None

    @property
    def lookup(self) -> str:
        """The name as known_hosts writes it."""
        if self.alias:
            return self.alias.lower()
        if self.port == _DEFAULT_PORT:
            return self.hostname.lower()
        return f"[{self.hostname.lower()}]:{self.port}"

    @property
    def principal(self) -> str:
        """The name that a certificate must carry."""
        return self.alias or self.hostname.lower()

    def without_port(self) -> HostName | None:
        """OpenSSH's second try: a key that is known for the bare name is good on any port."""
        if self.alias or self.port == _DEFAULT_PORT:
            return None
        return HostName(self.hostname)


class KnownHosts:
    """The known_hosts files that hold for one host, the user's first."""

    def __init__(
        self,
        user_files: Sequence[Path],
        global_files: Sequence[Path],
        revoked_keys: Path | None = None,
    ) -> None:
        self._user_files = tuple(user_files)
        self._files = (*user_files, *global_files)
        self._revoked_keys = revoked_keys

    def judge(self, host: HostName, blob: bytes, now: float) -> Verdict:
        """Judge a key or certificate in wire format; `now` (unix seconds) is for a certificate's validity."""
        if self._revoked_keys is not None and not _shown_keys(blob).isdisjoint(
            revoked_blobs(self._revoked_keys)
        ):
            return Verdict("revoked", Entry("@revoked", "*", blob, self._revoked_keys, 0))
        verdict = self._judge_name(host, blob, now)
        bare = host.without_port()
        if verdict.trust == "unknown" and bare is not None:
            second = self._judge_name(bare, blob, now)
            if second.trust in ("known", "revoked"):
                return second
            return Verdict("unknown", note=verdict.note or second.note)
        return verdict

    def order(self, host: HostName, algorithms: Iterable[str]) -> tuple[str, ...]:
        """Host key algorithms to offer, those of known keys first, so that a known host shows its known key.

        Certificate algorithms stay only where a @cert-authority line is about the host.
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

    def entries(self, host: HostName) -> list[Entry]:
        """The lines about a host, in order."""
        name = host.lookup
        return [entry for file in self._files for entry in _matching(file, _state(file), name)]

    def record(self, host: HostName, blob: bytes, *, hashed: bool, now: float) -> Verdict:
        """Append an unknown key to the user's first file (made with mode 0600) and judge it again.

        Raises:
            OSError: when the file cannot be written.
        """
        with _recording:  # two nodes may share one address
            verdict = self.judge(host, blob, now)
            if verdict.trust != "unknown":
                return verdict
            plain = blob
            if key_type(blob).endswith(SUFFIX):
                plain = read_certificate(blob).key
            name = _hash(host.lookup) if hashed else host.lookup
            line = f"{name} {key_type(plain)} {base64.b64encode(plain).decode()}\n"
            _append(self._user_files[0], line)
            return self.judge(host, blob, now)

    def _judge_name(self, host: HostName, blob: bytes, now: float) -> Verdict:
        entries = self.entries(host)
        shown = _shown_keys(blob)
        for entry in entries:
            if entry.marker == "@revoked" and entry.blob in shown:
                return Verdict("revoked", entry)
        note = ""
        if key_type(blob).endswith(SUFFIX):
            try:
                certificate = read_certificate(blob)
            except BadCertificateError as error:
                return Verdict("unknown", note=f"its certificate cannot be read: {error}")
            for entry in entries:
                if entry.marker == "@cert-authority" and entry.blob == certificate.authority:
                    refusal = certificate.refusal(host.principal, now)
                    if refusal is None:
                        return Verdict("known", entry, certified=True)
                    note = f"its certificate does not help: {refusal}"
                    break
            blob = certificate.key
        plain = [entry for entry in entries if not entry.marker]
        for entry in plain:
            if entry.blob == blob:
                return Verdict("known", entry)
        return Verdict("changed", plain[0], note=note) if plain else Verdict("unknown", note=note)


class RevocationListError(Exception):
    """RevokedHostKeys cannot be followed, so no host key may be trusted."""


def revoked_blobs(file: Path) -> frozenset[bytes]:
    """The keys of a RevokedHostKeys file.

    Raises:
        RevocationListError: when it cannot be read or is a binary list (KRL), which only OpenSSH reads.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise RevocationListError(
            f"RevokedHostKeys {file} cannot be read ({error.strerror}): "
            "make it readable or take the line out of ssh_config"
        ) from error
    if content.startswith(_KRL_MAGIC):
        raise RevocationListError(
            f"RevokedHostKeys {file} is a binary list that only OpenSSH reads: "
            "use `link: command` with ssh for this node"
        )
    blobs = (_read_key(line.split()) for line in content.decode(errors="replace").splitlines())
    return frozenset(blob for blob in blobs if blob is not None)


def fingerprint(blob: bytes) -> str:
    """`SHA256:...` as ssh-keygen -l prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(_plain(blob)).digest()).decode().rstrip("=")


def describe_key(blob: bytes) -> str:
    """`ED25519 SHA256:...`; of a certificate, the key in it."""
    kind = key_type(blob).removesuffix(SUFFIX)
    return f"{kind.removeprefix('ssh-').split('-')[0].upper()} {fingerprint(blob)}"


def _state(file: Path) -> tuple[int, int, int]:
    """What changes when the file does."""
    try:
        state = file.stat()
    except OSError:
        return (0, 0, 0)
    return (state.st_mtime_ns, state.st_size, state.st_ino)


@lru_cache(maxsize=8192)
def _matching(file: Path, state: tuple[int, int, int], name: str) -> tuple[Entry, ...]:
    """A hashed file of a large cluster takes milliseconds to search, and every connect asks several times."""
    return tuple(entry for entry in _parse_file(file, state) if entry.matches(name))


@lru_cache(maxsize=64)
def _parse_file(file: Path, state: tuple[int, int, int]) -> tuple[Entry, ...]:  # noqa: ARG001  # the cache's key
    """The readable lines of a file; none when there is no file."""
    try:
        lines = file.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    except OSError:
        return ()
    entries = (_parse_line(text, file, number) for number, text in enumerate(lines, 1))
    return tuple(entry for entry in entries if entry is not None)


def _parse_line(text: str, file: Path, number: int) -> Entry | None:
    fields = text.split()
    if not fields or fields[0].startswith("#"):
        return None
    marker: Marker = ""
    if fields[0].startswith("@"):
        found = [known for known in _MARKERS if known == fields[0]]
        if not found:
            return None
        marker, fields = found[0], fields[1:]
    if len(fields) < 3:
        return None
    blob = _read_key(fields[1:])
    salted = _salted(fields[0])
    if blob is None or (fields[0].startswith("|") and salted is None):
        return None
    return Entry(marker, fields[0], blob, file, number, salted)


def _read_key(fields: Sequence[str]) -> bytes | None:
    if len(fields) < 2:
        return None
    try:
        blob = base64.b64decode(fields[1], validate=True)
    except (binascii.Error, ValueError):
        return None
    return blob if key_type(blob) == fields[0] else None


def _plain(blob: bytes) -> bytes:
    if not key_type(blob).endswith(SUFFIX):
        return blob
    try:
        return read_certificate(blob).key
    except BadCertificateError:
        return blob


def _shown_keys(blob: bytes) -> frozenset[bytes]:
    """The keys whose revocation counts: the shown one; of a certificate, also its key and its authority."""
    if not key_type(blob).endswith(SUFFIX):
        return frozenset((blob,))
    try:
        certificate = read_certificate(blob)
    except BadCertificateError:
        return frozenset((blob,))
    return frozenset((blob, certificate.key, certificate.authority))


def _type_of_algorithm(algorithm: str) -> str:
    return "ssh-rsa" if algorithm.startswith("rsa-sha2-") else algorithm


def _patterns_match(patterns: str, name: str) -> bool:
    matched = False
    for pattern in patterns.split(","):
        negated = pattern.startswith("!")
        if _pattern(pattern[negated:].lower()).fullmatch(name):
            if negated:
                return False
            matched = True
    return matched


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    wild = {"*": ".*", "?": "."}
    collapsed = re.sub(r"\*+", "*", text)  # a run of stars would make the match exponential
    return re.compile("".join(wild.get(c) or re.escape(c) for c in collapsed), re.DOTALL)


def _salted(hosts: str) -> tuple[bytes, bytes] | None:
    parts = hosts.split("|")
    if len(parts) != 4 or parts[:2] != ["", "1"]:
        return None
    try:
        return base64.b64decode(parts[2], validate=True), base64.b64decode(parts[3], validate=True)
    except (binascii.Error, ValueError):
        return None


def _hash(name: str) -> str:
    salt = os.urandom(20)
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def _append(file: Path, line: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        cut = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(
            descriptor, (("\n" if cut else "") + line).encode()
        )  # one write with O_APPEND is not interleaved
    finally:
        os.close(descriptor)
