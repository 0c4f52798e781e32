"""Chooses the keys for each host and their order; asks for passphrases once, before any screen."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import paramiko
from msgspec import Struct

from gpuwatch.link.openssh.ssh_config import ResolvedHost
from gpuwatch.link.ssh.keys.key_files import (
    KeyFile,
    KeyFileError,
    certificates,
    certified,
    public_key,
    read_key_file,
)
from gpuwatch.link.ssh.keys.ssh_agent import AgentKey, agent_keys
from gpuwatch.link.stream.options import Ask
from gpuwatch.plain import plain

_PASSPHRASE_TRIES = 3


class KeyCandidate(Struct, frozen=True):
    """A key that a login tries, and its description for messages."""

    label: str
    key: paramiko.PKey


class Identity(Struct, frozen=True):
    """The keys for one host."""

    candidates: tuple[KeyCandidate, ...]
    unusable: tuple[str, ...]
    """Configured key files that cannot be used, with the reason."""


class Keyring:
    """The keys from files and agents. After `unlock` it never prompts."""

    def __init__(self) -> None:
        self._loaded: dict[Path, paramiko.PKey | str] = {}

    def unlock(self, hosts: Iterable[ResolvedHost], ask: Ask | None) -> None:
        """Load the key files for these hosts, prompting once for each that is encrypted and in no agent.

        An encrypted file that is not configured is used only if there is no other key.
        """
        held: dict[str | None, dict[bytes, AgentKey]] = {}  # a thousand hosts share one agent
        for host in hosts:
            if host.agent_socket not in held:
                held[host.agent_socket] = _by_blob(host)
            agents = held[host.agent_socket]
            for path in host.identity_files:
                if path in self._loaded:
                    continue
                wanted = not host.default_identities or not (agents or self._usable(host))
                self._load(path, agents, ask if wanted else None)

    def identity(self, host: ResolvedHost) -> Identity:
        """Return the keys for a host: configured files, other keys of the agent, OpenSSH's default files.

        A server disconnects after some failures (MaxAuthTries, usually 6), so likely keys come first.
        """
        agents = _by_blob(host)
        configured: list[KeyCandidate] = []
        unusable: list[str] = []
        for path in host.identity_files:
            key = self._key(path, agents)
            if isinstance(key, paramiko.PKey):
                configured += _with_certificates(path, key, host.certificate_files)
            elif not host.default_identities or path.exists():
                unusable.append(f"{path}: {key}")
        taken = {candidate.key.asbytes() for candidate in configured}
        others = (
            []
            if host.identities_only
            else [
                KeyCandidate(f"agent key {plain(key.comment)}", key)
                for blob, key in agents.items()
                if blob not in taken
            ]
        )
        ordered = (*others, *configured) if host.default_identities else (*configured, *others)
        return Identity(ordered, tuple(unusable))

    def _usable(self, host: ResolvedHost) -> bool:
        return any(
            isinstance(self._loaded.get(path), paramiko.PKey) or _is_open(path)
            for path in host.identity_files
        )

    def _key(self, path: Path, agents: dict[bytes, AgentKey]) -> paramiko.PKey | str:
        loaded = self._loaded.get(path, "no ssh agent holds it any more")
        public = public_key(path) if isinstance(loaded, str) and agents else None
        return agents.get(public, loaded) if public is not None else loaded

    def _load(self, path: Path, agents: dict[bytes, AgentKey], ask: Ask | None) -> None:
        try:
            file = read_key_file(path)
            if not file.encrypted:
                self._loaded[path] = file.load(None)
            elif file.public in agents:
                return
            elif ask is None:
                self._loaded[path] = "it needs a passphrase; add it to the agent with ssh-add"
            else:
                self._loaded[path] = _ask_passphrase(file, ask)
        except KeyFileError as error:
            self._loaded[path] = str(error)


def _ask_passphrase(file: KeyFile, ask: Ask) -> paramiko.PKey:
    prompt = f"Passphrase for {file.path}: "
    for _ in range(_PASSPHRASE_TRIES):
        passphrase = ask(prompt, True)
        if not passphrase:
            raise KeyFileError("no passphrase was given")
        try:
            return file.load(passphrase)
        except KeyFileError as error:
            prompt, failure = f"Wrong. Passphrase for {file.path}: ", error
    raise failure


def _is_open(path: Path) -> bool:
    try:
        return not read_key_file(path).encrypted
    except KeyFileError:
        return False


def _by_blob(host: ResolvedHost) -> dict[bytes, AgentKey]:
    return {key.asbytes(): key for key in agent_keys(host.agent_socket)}


def _with_certificates(path: Path, key: paramiko.PKey, more: tuple[Path, ...]) -> list[KeyCandidate]:
    found = []
    for file, certificate in certificates(path, more):
        both = certified(key, certificate)
        if both is not None:
            found.append(KeyCandidate(str(file), both))
    return [*found, KeyCandidate(str(path), key)]
