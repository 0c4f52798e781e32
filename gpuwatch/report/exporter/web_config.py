"""TLS and basic authentication of the exporter, from a web configuration file in Prometheus's format."""

from __future__ import annotations

import hashlib
import hmac
import ssl
import threading
from base64 import b64decode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import bcrypt

from gpuwatch.hosts.validation.document import compose
from gpuwatch.hosts.validation.errors import HostsError, Problems
from gpuwatch.hosts.validation.shapes import Keyword, SecretText, Text
from gpuwatch.hosts.validation.structures import Key, MapOf, Record
from gpuwatch.whole_file import read_own

MAX_CONFIG_BYTES = 1 << 16
KEPT_LOGINS = 64
MAX_WAITING = 4
"""Maximum number of passwords of one address that wait to be verified; each takes about 50 ms."""
NO_CLIENT, NEEDS_CLIENT = "NoClientCert", "RequireAndVerifyClientCert"


_PATH = Text("the path of a file, relative to this one", r"[^\x00]+")
_SHAPE = Record(
    "the web configuration",
    (
        Key(
            "tls_server_config",
            Record(
                "tls_server_config",
                (
                    Key("cert_file", _PATH, "The certificate chain (PEM).", required=True),
                    Key("key_file", _PATH, "The private key (PEM).", required=True),
                    Key("client_ca_file", _PATH, "Certificate authorities for client certificates (PEM)."),
                    Key("client_auth_type", Keyword((NO_CLIENT, NEEDS_CLIENT)), "Whether clients need one."),
                    Key("min_version", Keyword(("TLS12", "TLS13")), "The minimum TLS version."),
                ),
            ),
            "Serve over TLS.",
        ),
        Key(
            "basic_auth_users",
            MapOf(
                "a mapping of users to bcrypt hashes",
                Text("a user name without a colon", r"[^:]+", 200),
                SecretText(
                    "a bcrypt hash, as `htpasswd -nBC 10 USER` prints it",
                    r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}",
                ),
            ),
            "Users and the bcrypt hashes of their passwords.",
        ),
    ),
)


@dataclass
class WebConfig:
    """TLS and users of the exporter. Without users, everyone may read."""

    tls: ssl.SSLContext | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    """User -> bcrypt hash."""
    _salt: bytes = field(default_factory=lambda: hashlib.sha256(bcrypt.gensalt(4)).digest())
    _good: set[bytes] = field(default_factory=set)
    """Digests of accepted logins: they need no second verification, which takes 50 ms or more."""
    _one: threading.Lock = field(default_factory=threading.Lock)
    """The lock under which one password at a time is verified, so that guessing cannot use every core."""
    _waiting: Counter[str] = field(default_factory=Counter)
    """Address -> number of requests whose password waits to be verified."""

    def allows(self, authorization: str | None, address: str = "") -> bool:
        """Return True if a request with this `Authorization` header may read.

        Only a few unverified passwords of one `address` are checked at a time; further ones are refused.
        """
        if not self.users:
            return True
        scheme, _, encoded = (authorization or "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            user, colon, password = b64decode(encoded.strip(), validate=True).partition(b":")
        except (Base64Error, ValueError):
            return False
        digest = hmac.new(self._salt, user + b"\0" + password, "sha256").digest()
        if digest in self._good:
            return True
        stored = self.users.get(user.decode("utf-8", "replace"))
        if self._waiting[address] >= MAX_WAITING:
            return False
        self._waiting[address] += 1
        try:
            with self._one:
                right = bcrypt.checkpw(password[:72], (stored or next(iter(self.users.values()))).encode())
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                self._waiting.pop(address, None)
        if not (right and colon and stored is not None):
            return False
        if len(self._good) < KEPT_LOGINS:
            self._good.add(digest)
        return True


def read_web_config(path: Path) -> WebConfig:
    """Read a web configuration file.

    Raises:
        HostsError: it cannot be read or is invalid; every problem with file, line and column.
    """
    try:
        text = read_own(path, MAX_CONFIG_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise HostsError([f"{path}: {error.strerror}"]) from error
    except UnicodeDecodeError:
        raise HostsError([f"{path}: not UTF-8 text"]) from None
    problems = Problems(str(path))
    root = compose(text, problems)
    entry = None if root is None else _SHAPE.read(root, problems)
    problems.raise_any()
    if entry is None:
        return WebConfig()
    tls = entry.values.get("tls_server_config")
    return WebConfig(
        None if tls is None else _tls(tls.values, path.parent), entry.values.get("basic_auth_users", {})
    )


def _tls(given: Mapping[str, str], folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = (
        ssl.TLSVersion.TLSv1_3 if given.get("min_version") == "TLS13" else ssl.TLSVersion.TLSv1_2
    )
    try:
        context.load_cert_chain(
            folder / given["cert_file"], folder / given["key_file"], password=_no_password
        )
        if "client_ca_file" in given:
            context.load_verify_locations(folder / given["client_ca_file"])
    except (OSError, ssl.SSLError) as error:
        raise HostsError([f"tls_server_config: {error}"]) from error
    if given.get("client_auth_type") == NEEDS_CLIENT:
        if "client_ca_file" not in given:
            raise HostsError([f"tls_server_config: client_auth_type {NEEDS_CLIENT} needs client_ca_file"])
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _no_password() -> bytes:
    """Return an empty passphrase, so that an encrypted key is refused: a service cannot ask for one."""
    return b""
