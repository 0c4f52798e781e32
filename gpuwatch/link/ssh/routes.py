"""Finds the route to each node: the node and its jump hosts, from ssh_config and the hosts file."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.openssh.ssh_config import ConfigError, HostQuery, ResolvedHost, ask_openssh, resolve
from gpuwatch.link.ssh.fallback_config import read_plainly
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.plain import plain

_JUMP = re.compile(r"(?:ssh://)?(?:(?P<user>[^@]+)@)?(?P<host>\[[^\]]+\]|[^:\[\]]+)(?::(?P<port>\d+))?/?")
_MAX_JUMPS = 8
_MAX_RESOLVERS = 4  # `ssh -G` takes 3.4 ms; more at once only queue for the cores


class Route(Struct, frozen=True):
    """A node and its jump hosts, nearest to us first."""

    target: ResolvedHost
    jumps: tuple[ResolvedHost, ...] = ()

    @property
    def words(self) -> str:
        """Return the route as text for messages: `user@host:port through user@jump:port`."""
        through = jump_words(self.jumps)
        return f"{self.target.where} through {through}" if through else self.target.where


class Routes:
    """Finds the routes to nodes; each distinct host is resolved once."""

    def __init__(self, config_file: str | None) -> None:
        self._config_file = config_file
        self._ssh = shutil.which("ssh")
        self._known: dict[HostQuery, ResolvedHost | ConfigError] = {}
        self._lock = threading.Lock()

    def find(self, specs: Sequence[NodeSpec]) -> dict[str, Route | CarrierError]:
        """Return node name -> its route, or the error if it has none."""
        with ThreadPoolExecutor(_MAX_RESOLVERS) as pool:
            return dict(zip((spec.name for spec in specs), pool.map(self._find_one, specs), strict=True))

    def _find_one(self, spec: NodeSpec) -> Route | CarrierError:
        try:
            target = self._resolve(HostQuery(spec.address or spec.name, spec.port, spec.user))
            if spec.identity_file:
                files = tuple(Path(file).expanduser() for file in spec.identity_file)
                target = replace(target, identity_files=files, default_identities=False)
            if spec.jump is not None:
                jump = None if spec.jump.lower() == "none" else spec.jump
                target = replace(
                    target,
                    proxy_jump=jump,
                    jump_override=spec.jump,
                    proxy_command=None if jump else target.proxy_command,
                )
            return Route(target, self._jumps(target))
        except CarrierError as error:
            return error

    def _jumps(self, target: ResolvedHost) -> tuple[ResolvedHost, ...]:
        """Return the jump hosts before a host, nearest to us first.

        The first may have jump hosts of its own.
        """
        chain: list[ResolvedHost] = []
        via, before = target.proxy_jump, target
        while via is not None:
            hosts = [self._resolve(_parse_jump(part.strip())) for part in via.split(",")]
            if (hosts[0].hostname, hosts[0].port) == (before.hostname, before.port):
                break  # `Host *` with a ProxyJump holds for the jump host too, which is then reached directly
            chain = [*hosts, *chain]
            if len(chain) > _MAX_JUMPS:
                raise ConfigError(
                    f"the way to {target.query.host} has over {_MAX_JUMPS} jump hosts: ProxyJump is circular"
                )
            via, before = hosts[0].proxy_jump, hosts[0]
        return tuple(chain)

    def _resolve(self, query: HostQuery) -> ResolvedHost:
        with self._lock:
            known = self._known.get(query)
        if known is None:
            known = self._read(query)
            with self._lock:
                self._known[query] = known
        if isinstance(known, ConfigError):
            raise ConfigError(str(known))
        return known

    def _read(self, query: HostQuery) -> ResolvedHost | ConfigError:
        try:
            if self._ssh is None:
                return resolve(read_plainly(query, self._config_file), query)
            return resolve(ask_openssh(self._ssh, query, self._config_file), query)
        except ConfigError as error:
            return error
        except ValueError as error:  # of a port or a timeout
            return ConfigError(
                f"ssh_config for {query.host} contains a value that is not a number: {plain(str(error))}"
            )


def jump_words(jumps: Sequence[ResolvedHost]) -> str | None:
    """Return the jump hosts as text, `user@jump:port, ...`; None if there are none."""
    return ", ".join(host.where for host in jumps) or None


def _parse_jump(text: str) -> HostQuery:
    match = _JUMP.fullmatch(text)
    if match is None or match["host"].startswith("-"):
        raise ConfigError(f"the jump host {text!r} is not of the form [user@]host[:port]")
    port = match["port"]
    return HostQuery(match["host"].strip("[]"), int(port) if port else None, match["user"])
