"""The folders of the user's own files, by the XDG base directory specification."""

from __future__ import annotations

import os
from pathlib import Path


def config_folder() -> Path:
    """`$XDG_CONFIG_HOME/gpuwatch`: rules and silences. It may not exist yet, nor may the others."""
    return _folder("XDG_CONFIG_HOME", ".config")


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/gpuwatch`: compiled rules."""
    return _folder("XDG_CACHE_HOME", ".cache")


def state_folder() -> Path:
    """`$XDG_STATE_HOME/gpuwatch`: faults that the screens survived, and bookmarks."""
    return _folder("XDG_STATE_HOME", ".local/state")


def make_own(folder: Path) -> None:
    """Create a folder and its missing parents with mode 0700, whatever the umask.

    Raises:
        OSError: it cannot be made.
    """
    if not folder.is_dir():
        make_own(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _folder(variable: str, default: str) -> Path:
    """The folder of a variable or its default; relative paths are ignored, as the specification requires."""
    base = os.environ.get(variable, "")
    return (Path(base) if base.startswith("/") else Path.home() / default) / "gpuwatch"
