"""Reads private key files: what is readable without the passphrase, and the keys."""

from __future__ import annotations

import base64
import binascii
import contextlib
import copy
import io
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_ssh_private_key,
)
from msgspec import Struct
from paramiko.pkey import PublicBlob

from gpuwatch.whole_file import read_bounded

_OPENSSH_BEGIN = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_OPENSSH_MAGIC = b"openssh-key-v1\0"
MAX_FILE_BYTES = 1 << 20
"""Largest key or certificate file; real ones have a few kB."""


class KeyFileError(Exception):
    """Raised if a key file cannot be used; the message states why."""


class KeyFile(Struct, frozen=True):
    """A private key file as it is on the disk, encrypted or not, with its public key if known."""

    path: Path
    content: bytes
    encrypted: bool
    public: bytes | None
    """The public key in wire format, if the file or its `.pub` has it."""

    def load(self, passphrase: str | None) -> paramiko.PKey:
        """Decrypt the key and return it.

        Raises:
            KeyFileError: wrong passphrase, or a type that is not supported.
        """
        password = passphrase.encode(errors="surrogateescape") if passphrase is not None else None
        try:
            openssh = self.content.lstrip().startswith(_OPENSSH_BEGIN)
            key = (load_ssh_private_key if openssh else load_pem_private_key)(self.content, password)
            plain = io.StringIO(
                key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
            )
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            wrong = (
                "the passphrase is wrong" if passphrase is not None else "it is damaged or not a private key"
            )
            raise KeyFileError(wrong) from error
        if isinstance(key, RSAPrivateKey):
            return paramiko.RSAKey.from_private_key(plain)
        if isinstance(key, EllipticCurvePrivateKey):
            return paramiko.ECDSAKey.from_private_key(plain)
        if isinstance(key, Ed25519PrivateKey):
            return paramiko.Ed25519Key.from_private_key(plain)
        raise KeyFileError("its type is not supported; use `link: command` with ssh for it")


def read_key_file(path: Path) -> KeyFile:
    """Return a private key file without decrypting it.

    Raises:
        KeyFileError: It is missing or not readable.
    """
    try:
        content = _content(path)
    except OSError as error:
        raise KeyFileError(
            f"it cannot be read: {error.strerror}; name a file that holds a private key"
        ) from error
    if content.lstrip().startswith(_OPENSSH_BEGIN):
        return KeyFile(path, content, _openssh_header(content)[0], public_key(path))
    return KeyFile(path, content, b"ENCRYPTED" in content, public_key(path))


def _content(path: Path) -> bytes:
    """Return at most `MAX_FILE_BYTES` of a file: devices and named pipes may never end.

    Raises:
        OSError: it cannot be read.
    """
    return read_bounded(path, MAX_FILE_BYTES)


def public_key(path: Path) -> bytes | None:
    """Return the public key in wire format, if `PATH.pub` or PATH contains it in plain form; else None.

    PATH may be missing or a public key itself: an agent may hold the private key.
    """
    for candidate in (path.with_name(path.name + ".pub"), path):
        with contextlib.suppress(OSError, ValueError):
            content = _content(candidate)
            if content.lstrip().startswith(_OPENSSH_BEGIN):
                return _openssh_header(content)[1]
            kind, encoded = content.split()[:2]
            blob = base64.b64decode(encoded, validate=True)
            if blob[4:].startswith(kind):
                return blob
    return None


def certificates(path: Path, more: tuple[Path, ...]) -> list[tuple[Path, PublicBlob]]:
    """Return the certificates that may belong to a key: configured ones and `PATH-cert.pub`, if readable."""
    found = []
    for candidate in (*more, path.with_name(path.name + "-cert.pub")):
        with contextlib.suppress(OSError, ValueError):
            found.append((candidate, PublicBlob.from_string(_content(candidate).decode())))
    return found


def certified(key: paramiko.PKey, certificate: PublicBlob) -> paramiko.PKey | None:
    """Return a copy of the key with the certificate; None if the certificate is for another key."""
    message = paramiko.Message(certificate.key_blob)
    kind = message.get_text()
    message.get_binary()  # nonce
    own = paramiko.Message(key.asbytes())
    plain_kind = own.get_text()
    if kind != f"{plain_kind}-cert-v01@openssh.com" or not message.get_remainder().startswith(
        own.get_remainder()
    ):
        return None
    both = copy.copy(key)
    both.public_blob = certificate
    return both


def _openssh_header(content: bytes) -> tuple[bool, bytes | None]:
    """Return (True if encrypted, public key or None), from the plain part of a key file (PROTOCOL.key)."""
    lines = content.strip().splitlines()[1:-1]
    try:
        blob = base64.b64decode(b"".join(lines))
    except binascii.Error:
        return False, None
    if not blob.startswith(_OPENSSH_MAGIC):
        return False, None
    message = paramiko.Message(blob[len(_OPENSSH_MAGIC) :])
    cipher = message.get_text()
    message.get_binary()  # key derivation
    message.get_binary()  # its options
    count = message.get_int()
    return cipher != "none", message.get_binary() if count else None
