"""Reads a host's ssh_config by running `ssh -G`: only OpenSSH interprets Include and Match correctly."""

from __future__ import annotations

import getpass
import os
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from gpuwatch.bounded_command import OutputTooLongError, run_bounded
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.link.stream.remote_text import MAX_LINES, shown_lines
from gpuwatch.number_text import limit_text
from gpuwatch.shell_command import command_line

Values = Mapping[str, Sequence[str]]
"""Keyword in lower case -> its values, one per line of `ssh -G`."""

_DEFAULT_IDENTITIES = frozenset(
    f"id_{kind}" for kind in ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk", "xmss", "dsa")
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_RESOLVE_TIMEOUT_S = 20.0  # a `Match exec` may run anything
MAX_ANSWER_BYTES = 4 << 20
"""Largest output of `ssh -G`: about 80 lines, plus one per `LocalForward`, `SendEnv` or `SetEnv`."""


class ConfigError(CarrierError):
    """Raised for an ssh_config that is invalid or unsupported; a retry does not help."""

    def __init__(self, message: str) -> None:
        super().__init__(message, final=True)


class HostQuery(Struct, frozen=True):
    """A host as named on ssh's command line, for which ssh_config is resolved."""

    host: str
    port: int | None = None
    user: str | None = None

    def arguments(self) -> list[str]:
        """Return the arguments of ssh that name the host: `[-p port] [-l user] host`."""
        port = ["-p", str(self.port)] if self.port is not None else []
        user = ["-l", self.user] if self.user is not None else []
        return [*port, *user, self.host]


class ResolvedHost(Struct, frozen=True):
    """One host with its ssh_config settings; paths are absolute, tokens expanded."""

    query: HostQuery
    hostname: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    default_identities: bool = True
    """True: no identity files are configured; OpenSSH's default ones apply and may not exist."""
    certificate_files: tuple[Path, ...] = ()
    identities_only: bool = False
    agent_socket: str | None = None
    proxy_jump: str | None = None
    proxy_command: str | None = None
    host_key_alias: str | None = None
    user_known_hosts: tuple[Path, ...] = ()
    global_known_hosts: tuple[Path, ...] = ()
    revoked_host_keys: Path | None = None
    strict_host_key_checking: str = "ask"
    hash_known_hosts: bool = False
    host_key_algorithms: tuple[str, ...] = ()
    """In order of preference; empty: all that the transport supports."""
    connect_timeout_s: float | None = None
    address_family: str = "any"
    bind_address: str | None = None
    jump_override: str | None = None
    """A jump host from the hosts file, passed to ssh as an option."""

    def ssh_command(self, config_file: str | None, *options: str) -> str:
        """Return an ssh command line to the host for the user, with the same settings."""
        config = ["-F", config_file] if config_file is not None else []
        jump = ["-J", self.jump_override] if self.jump_override is not None else []
        return command_line(["ssh", *config, *jump, *options, *self.query.arguments()])

    @property
    def where(self) -> str:
        """Return `user@hostname:port`, for messages."""
        host = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{self.user}@{host}:{self.port}"


def ask_openssh(ssh: str, query: HostQuery, config_file: str | None) -> dict[str, list[str]]:
    """Return the settings that `ssh -G` prints for a host, by keyword.

    Raises:
        ConfigError: ssh fails, hangs or prints too much; with ssh's own message.
    """
    config = ["-F", config_file] if config_file is not None else []
    argv = [ssh, "-G", *config, *query.arguments()[:-1], "--", query.host]
    try:
        done = run_bounded(argv, _RESOLVE_TIMEOUT_S, MAX_ANSWER_BYTES)
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"`ssh -G {query.host}` took over {_RESOLVE_TIMEOUT_S:.0f} s: a `Match exec` in ssh_config hangs"
        ) from None
    except OutputTooLongError:
        raise ConfigError(f"`ssh -G {query.host}` printed more than {limit_text(MAX_ANSWER_BYTES)}") from None
    if done.status != 0:
        lines = shown_lines(done.stderr.decode(errors="replace"), MAX_LINES)[:2] or ["no reason given"]
        raise ConfigError(f"ssh_config cannot be used for {query.host}: {' / '.join(lines)}")
    values: dict[str, list[str]] = {}
    for line in done.stdout.decode(errors="surrogateescape").splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key.lower(), []).append(value)
    return values


def resolve(values: Values, query: HostQuery) -> ResolvedHost:
    """Return a host with its settings, made from the keywords and values that `ssh -G` printed.

    Raises:
        ConfigError: A setting is not supported here and must not be ignored.
    """

    def one(key: str) -> str | None:
        value = values.get(key, ("",))[0].strip()
        return value if value and value.lower() != "none" else None

    hostname = (one("hostname") or query.host).replace("%h", query.host)
    user, port = one("user") or getpass.getuser(), int(one("port") or 22)
    alias = one("hostkeyalias")
    expander = Tokens(query.host, hostname, port, user, alias)
    if one("proxyusefdpass") == "yes":
        raise ConfigError(
            f"ProxyUseFdpass of {query.host} is not supported; use `link: command` with ssh for it"
        )
    identities = [value for value in values.get("identityfile", ()) if value.lower() != "none"]
    revoked = one("revokedhostkeys")
    timeout = one("connecttimeout")
    command = one("proxycommand")
    return ResolvedHost(
        query=query,
        hostname=hostname,
        port=port,
        user=user,
        identity_files=tuple(expander.path(value) for value in identities),
        default_identities=all(_is_default_identity(value) for value in identities),
        certificate_files=tuple(
            expander.path(value) for value in values.get("certificatefile", ()) if value.lower() != "none"
        ),
        identities_only=one("identitiesonly") == "yes",
        agent_socket=_agent_socket(values.get("identityagent", ("",))[0].strip(), expander),
        proxy_jump=one("proxyjump"),
        proxy_command=expander.expand(command) if command and not one("proxyjump") else None,
        host_key_alias=alias,
        user_known_hosts=tuple(expander.path(value) for value in (one("userknownhostsfile") or "").split()),
        global_known_hosts=tuple(
            expander.path(value) for value in (one("globalknownhostsfile") or "").split()
        ),
        revoked_host_keys=expander.path(revoked) if revoked else None,
        strict_host_key_checking=one("stricthostkeychecking") or "ask",
        hash_known_hosts=one("hashknownhosts") == "yes",
        host_key_algorithms=tuple(filter(None, (one("hostkeyalgorithms") or "").split(","))),
        connect_timeout_s=float(timeout) if timeout else None,
        address_family=one("addressfamily") or "any",
        bind_address=one("bindaddress"),
    )


class Tokens:
    """The values of the `%` tokens of ssh_config(5) for one host."""

    def __init__(self, given: str, hostname: str, port: int, user: str, alias: str | None) -> None:
        node = socket.gethostname()
        self._values = {
            "%": "%",
            "h": hostname,
            "n": given,
            "p": str(port),
            "r": user,
            "k": alias or given,
            "d": str(Path.home()),
            "u": getpass.getuser(),
            "i": str(os.getuid()),
            "l": node,
            "L": node.split(".")[0],
        }

    def expand(self, text: str) -> str:
        """Return the text with its `%` tokens replaced.

        Raises:
            ConfigError: A token is unknown, or its value has characters that a shell would interpret.
        """
        first, *rest = text.split("%")
        if not rest:
            return first
        out, pieces = first, iter(rest)
        for piece in pieces:
            if piece:
                out += self._value(piece[0], text) + piece[1:]
            else:  # "%%" leaves an empty piece, and what follows it is literal
                out += "%" + next(pieces, "")
        return out

    def path(self, text: str) -> Path:
        """Return a path with `~`, tokens and `${VARIABLES}` expanded; an unset variable is empty.

        Raises:
            ConfigError: as `expand`.
        """
        plain = _VARIABLE.sub(lambda match: os.environ.get(match[1], ""), text.strip().strip('"'))
        return Path(self.expand(plain)).expanduser()

    def _value(self, letter: str, text: str) -> str:
        if letter not in self._values:
            raise ConfigError(
                f"ssh_config has a token %{letter} in {text!r} that is not supported here; "
                "write the value out, or use `link: command` with ssh for this node"
            )
        value = self._values[letter]
        if letter in "hnrk" and (
            value.startswith("-") or any(c in "'`\"$\\;&<>|(){}" or c.isspace() for c in value)
        ):
            raise ConfigError(
                f"the host or user name {value!r} contains characters that a shell would interpret"
            )
        return value


def _is_default_identity(value: str) -> bool:
    path = Path(value)
    return path.name in _DEFAULT_IDENTITIES and path.parent in (Path("~/.ssh"), Path.home() / ".ssh")


def _agent_socket(value: str, expander: Tokens) -> str | None:
    if value.lower() == "none":
        return None
    if not value or value == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK") or None
    if value.startswith("$"):
        return os.environ.get(value.strip("${}")) or None
    return str(expander.path(value))
