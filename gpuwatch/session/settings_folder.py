"""The folder where a person keeps their own rules and silences: `$XDG_CONFIG_HOME/gpuwatch`."""

from __future__ import annotations

import os
from pathlib import Path


def settings_folder() -> Path:
    """The folder; nobody has made it yet, perhaps."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "gpuwatch"


def own_packs() -> list[Path]:
    """The person's own rule packs there, by name."""
    return sorted((settings_folder() / "rules").glob("*.yaml"))
