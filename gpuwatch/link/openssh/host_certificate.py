"""Parses OpenSSH host certificates and checks their validity for a host (PROTOCOL.certkeys)."""

from __future__ import annotations

import base64
import binascii
import struct

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    load_ssh_public_identity,
)
from msgspec import Struct

SUFFIX = "-cert-v01@openssh.com"
_OWN_KEY_FIELDS = {
    "ssh-ed25519": 1,
    "ecdsa-sha2-nistp256": 2,
    "ecdsa-sha2-nistp384": 2,
    "ecdsa-sha2-nistp521": 2,
    "ssh-rsa": 2,
}
_SIGNATURES = {
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-256",
    "rsa-sha2-512",
}  # OpenSSH's CASignatureAlgorithms without the FIDO ones: no SHA-1


class BadCertificateError(Exception):
    """Raised if the certificate cannot be parsed; the message states why."""


class HostCertificate(Struct, frozen=True):
    """The content of a host certificate; keys are bytes in wire format."""

    key: bytes
    """The certified key."""
    authority: bytes
    signature_type: str
    is_host: bool
    principals: tuple[str, ...]
    valid_after: int
    valid_before: int
    critical: tuple[str, ...]
    genuine: bool
    """True if the authority's signature is valid."""

    def refusal(self, hostname: str, now: float) -> str | None:
        """Return why the certificate is not valid for `hostname` at `now` (unix seconds); None: it is valid.

        The checks and their order are those of OpenSSH's sshkey_cert_check_host.
        """
        if not self.genuine or self.signature_type not in _SIGNATURES:
            return f"its signature ({self.signature_type}) is not accepted"
        if not self.is_host:
            return "it is a user certificate"
        if now < self.valid_after:
            return "it is not yet valid"
        if now >= self.valid_before:
            return "it has expired"
        if self.principals and hostname not in self.principals:
            return f"it is not for {hostname}"
        if self.critical:
            return "it has critical options that are not known"
        return None


def read_certificate(blob: bytes) -> HostCertificate:
    """Return the parsed certificate that a server sent.

    Raises:
        BadCertificateError: It cannot be parsed.
    """
    kind = key_type(blob)
    try:
        identity = load_ssh_public_identity(f"{kind} ".encode() + base64.b64encode(blob))
        if not isinstance(identity, SSHCertificate):
            raise BadCertificateError("not a certificate")
        genuine = True
        try:
            identity.verify_cert_signature()
        except InvalidSignature:
            genuine = False
        return HostCertificate(
            key=_plain_blob(identity),
            authority=_authority_blob(identity),
            signature_type=_signature_type(blob),
            is_host=identity.type is SSHCertificateType.HOST,
            principals=tuple(name.decode(errors="replace") for name in identity.valid_principals),
            valid_after=identity.valid_after,
            valid_before=identity.valid_before,
            critical=tuple(name.decode(errors="replace") for name in identity.critical_options),
            genuine=genuine,
        )
    except (ValueError, UnsupportedAlgorithm, struct.error) as error:
        raise BadCertificateError(str(error)) from error


def key_type(blob: bytes) -> str:
    """Return the type name at the start of a key's wire format; "" if invalid."""
    try:
        return _string(blob, 0)[0].decode("ascii")
    except (struct.error, ValueError):
        return ""


def _plain_blob(identity: SSHCertificate) -> bytes:
    return _to_blob(identity.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))


def _authority_blob(identity: SSHCertificate) -> bytes:
    return _to_blob(identity.signature_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))


def _to_blob(line: bytes) -> bytes:
    try:
        return base64.b64decode(line.split()[1], validate=True)
    except (IndexError, binascii.Error) as error:
        raise BadCertificateError("one of its keys cannot be encoded") from error


def _signature_type(blob: bytes) -> str:
    kind, at = _string(blob, 0)
    fields = _OWN_KEY_FIELDS[kind.decode().removesuffix(SUFFIX)]
    for _ in range(1 + fields):  # nonce, own key
        _, at = _string(blob, at)
    at += 8 + 4  # serial, type
    for _ in range(2):  # key id, principals
        _, at = _string(blob, at)
    at += 8 + 8  # validity
    for _ in range(4):  # critical options, extensions, reserved, authority
        _, at = _string(blob, at)
    return _string(_string(blob, at)[0], 0)[0].decode("ascii", "replace")


def _string(blob: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">I", blob, at)
    end = at + 4 + length
    if end > len(blob):
        raise ValueError("a field is truncated")
    return blob[at + 4 : end], end
