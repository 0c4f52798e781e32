"""The folders of the user's own files, by the XDG base directory specification."""

from __future__ import annotations

import os
from pathlib import Path


def config_folder() -> Path:
    """Return `$XDG_CONFIG_HOME/gpuwatch` (default ~/.config): settings, rules, silences. May be missing."""
    return _folder("XDG_CONFIG_HOME", ".config")


def cache_folder() -> Path:
    """Return `$XDG_CACHE_HOME/gpuwatch` (default ~/.cache): compiled rules. It need not exist."""
    return _folder("XDG_CACHE_HOME", ".cache")


def state_folder() -> Path:
    """Return `$XDG_STATE_HOME/gpuwatch` (default ~/.local/state): history, faults. It need not exist."""
    return _folder("XDG_STATE_HOME", ".local/state")


def state_file(name: str) -> Path:
    """Return a file of the state folder, after moving it there from the settings folder, where 0.1 kept it.

    Return the one in the settings folder if it cannot be moved.
    """
    path, old = state_folder() / name, config_folder() / name
    if path.exists() or not old.is_file():
        return path
    try:
        make_own(path.parent)
        old.replace(path)
    except OSError:
        return old
    return path


def make_own(folder: Path) -> None:
    """Create a folder and its missing parents with mode 0700; those that exist keep their modes.

    Raises:
        OSError: it cannot be made.
    """
    if not folder.is_dir():
        make_own(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _folder(variable: str, default: str) -> Path:
    """Return the folder `gpuwatch` below the folder that an environment variable names, else below `default`.

    A relative path in the variable is ignored.
    """
    base = os.environ.get(variable, "")
    return (Path(base) if base.startswith("/") else Path.home() / default) / "gpuwatch"
