"""Reads ssh_config without `ssh`: by paramiko's parser, limited to what that handles correctly.

It ignores Include and treats an unknown Match as matching, so files with an unknown Match or an Include of an
existing file are refused.
"""

from __future__ import annotations

from pathlib import Path

import paramiko

from gpuwatch.link.openssh.ssh_config import ConfigError, HostQuery
from gpuwatch.number_text import limit_text
from gpuwatch.whole_file import read_bounded

MAX_FILE_BYTES = 4 << 20
_KNOWN_MATCH = {"host", "originalhost", "user", "localuser", "all", "canonical", "final"}
_USUAL_IDENTITIES = ("id_rsa", "id_ecdsa", "id_ed25519")


def read_plainly(query: HostQuery, config_file: str | None) -> dict[str, list[str]]:
    """Return the settings for a host, by keyword, in the form of `ssh -G`.

    `config_file`: replaces the default files, of which each may be missing; `none` for no file.

    Raises:
        ConfigError: a file cannot be read or used, or contains what only OpenSSH reads correctly.
    """
    if config_file is None:
        files = [Path("~/.ssh/config").expanduser(), Path("/etc/ssh/ssh_config")]
    else:
        files = [] if config_file.lower() == "none" else [Path(config_file)]
    config = paramiko.SSHConfig()
    for file in files:
        try:
            text = read_bounded(file, MAX_FILE_BYTES + 1).decode(errors="surrogateescape")
        except OSError as error:
            if config_file is None and isinstance(error, FileNotFoundError):
                continue
            raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
        if len(text) > MAX_FILE_BYTES:
            raise ConfigError(
                f"{file} is larger than {limit_text(MAX_FILE_BYTES)}, too large for an ssh_config"
            )
        _refuse_what_is_misread(file, text)
        try:
            config.parse(text.splitlines())
        except paramiko.ConfigParseError as error:
            raise ConfigError(f"{file} cannot be read: {error}") from error
    try:
        found = config.lookup(query.host)
    except (paramiko.ConfigParseError, paramiko.CouldNotCanonicalize) as error:
        raise ConfigError(f"ssh_config cannot be used for {query.host}: {error}") from error
    values = {key: value if isinstance(value, list) else [value] for key, value in found.items()}
    home = Path("~/.ssh").expanduser()
    values.setdefault("identityfile", [f"~/.ssh/{name}" for name in _USUAL_IDENTITIES])
    values.setdefault("userknownhostsfile", [f"{home}/known_hosts {home}/known_hosts2"])
    values.setdefault("globalknownhostsfile", ["/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"])
    if query.port is not None:
        values["port"] = [str(query.port)]
    if query.user is not None:
        values["user"] = [query.user]
    return values


def _refuse_what_is_misread(file: Path, text: str) -> None:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.replace("=", " ", 1).replace('"', " ").split()
        if not words:
            continue
        keyword = words[0].lower()
        if keyword == "include" and any(_included(pattern, file) for pattern in words[1:]):
            raise ConfigError(
                f"{file}:{number}: Include needs the ssh program to be read correctly; install "
                "openssh-client, or give the hosts file's address, user and identity_file"
            )
        if keyword == "match" and not {word.lower() for word in words[1::2]} <= _KNOWN_MATCH:
            raise ConfigError(
                f"{file}:{number}: this Match can only be read by the ssh program; install openssh-client"
            )


def _included(pattern: str, file: Path) -> bool:
    """Return True if an Include matches an existing file; relative names are relative to the config file."""
    path = file.parent / Path(pattern).expanduser()
    return any(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
