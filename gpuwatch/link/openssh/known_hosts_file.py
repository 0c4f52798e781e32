"""Reads, matches and writes lines of a known_hosts file as OpenSSH does.

The format is in sshd(8), SSH_KNOWN_HOSTS FILE FORMAT. Unreadable lines are skipped.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hmac
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gpuwatch.link.openssh.host_certificate import key_type
from gpuwatch.number_text import limit_text
from gpuwatch.whole_file import read_bounded

Marker = Literal["", "@cert-authority", "@revoked"]
MAX_FILE_BYTES = 64 << 20
"""Size of a list of 200,000 hosts with three keys each; a device would be endless."""
REMEDY = "name a regular file in ssh_config (UserKnownHostsFile, GlobalKnownHostsFile, RevokedHostKeys)"
_MARKERS: tuple[Marker, ...] = ("@cert-authority", "@revoked")


class KnownHostsLine(Struct, frozen=True):
    """One line of a known_hosts file."""

    marker: Marker
    hosts: str
    blob: bytes
    file: Path
    line: int
    salted: tuple[bytes, bytes] | None = None
    """Salt and digest of a hashed host name."""

    @property
    def place(self) -> str:
        """Return the position of the line, as `file:line`."""
        return f"{self.file}:{self.line}"

    def matches(self, name: str) -> bool:
        """Return True if the line is for this lookup name (lower case, `[host]:port` unless port 22)."""
        if self.salted is not None:
            salt, digest = self.salted
            return hmac.digest(salt, name.encode(), "sha1") == digest
        return _patterns_match(self.hosts, name)


class HostKeyListError(Exception):
    """Raised if a list of host keys cannot be used, so that no host key may be trusted.

    The message contains the remedy.
    """


def lines_about(file: Path, name: str) -> tuple[KnownHostsLine, ...]:
    """Return the lines of a file for a lookup name, in order; empty if the file is missing or unreadable.

    Raises:
        HostKeyListError: it is a named pipe, or larger than `MAX_FILE_BYTES`.
    """
    return _matching(file, _state(file), name)


def append_key(file: Path, name: str, key: bytes, *, hashed: bool) -> None:
    """Append a line with this key to a file, created with mode 0600 if missing; `hashed`: hash the name.

    Raises:
        OSError: it cannot be written.
    """
    host = _hash(name) if hashed else name
    _append(file, f"{host} {key_type(key)} {base64.b64encode(key).decode()}\n")


def _state(file: Path) -> tuple[int, int, int]:
    """Return (mtime in ns, size, inode), which change when the file does; zeros if it is missing."""
    try:
        state = file.stat()
    except OSError:
        return (0, 0, 0)
    return (state.st_mtime_ns, state.st_size, state.st_ino)


@lru_cache(maxsize=8192)
def _matching(file: Path, state: tuple[int, int, int], name: str) -> tuple[KnownHostsLine, ...]:
    """Return the lines of a file for a lookup name; cached, as a large hashed file takes milliseconds.

    Raises:
        HostKeyListError: the same as `lines_about`.
    """
    return tuple(entry for entry in _parse_file(file, state) if entry.matches(name))


@lru_cache(maxsize=64)
def _parse_file(file: Path, state: tuple[int, int, int]) -> tuple[KnownHostsLine, ...]:  # noqa: ARG001  # the cache's key
    """Return the valid lines of a file; empty if it is missing or unreadable.

    Raises:
        HostKeyListError: the same as `lines_about`.
    """
    try:
        lines = read_list(file).decode("utf-8", "surrogateescape").split("\n")
    except OSError:
        return ()
    entries = (_parse_line(text, file, number) for number, text in enumerate(lines, 1))
    return tuple(entry for entry in entries if entry is not None)


def read_list(file: Path) -> bytes:
    """Return the bytes of a list of host keys.

    Raises:
        HostKeyListError: the same as `lines_about`.
        OSError: it does not exist or cannot be read.
    """
    try:
        content = read_bounded(file, MAX_FILE_BYTES + 1)
    except PermissionError as error:
        if error.errno != errno.EPERM:
            raise
        raise HostKeyListError(f"{file}: {error.strerror}; {REMEDY}") from error
    if len(content) > MAX_FILE_BYTES:
        raise HostKeyListError(f"{file}: larger than {limit_text(MAX_FILE_BYTES)}; {REMEDY}")
    return content


def _parse_line(text: str, file: Path, number: int) -> KnownHostsLine | None:
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
    blob = read_key(fields[1:])
    salted = _salted(fields[0])
    if blob is None or (fields[0].startswith("|") and salted is None):
        return None
    return KnownHostsLine(marker, fields[0], blob, file, number, salted)


def read_key(fields: Sequence[str]) -> bytes | None:
    """Return the key in wire format from the fields `ssh-ed25519 AAAA...`; None if invalid."""
    if len(fields) < 2:
        return None
    try:
        blob = base64.b64decode(fields[1], validate=True)
    except (binascii.Error, ValueError):
        return None
    return blob if key_type(blob) == fields[0] else None


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
