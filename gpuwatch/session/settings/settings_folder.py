"""The folder where a person keeps their own rules and silences: `$XDG_CONFIG_HOME/gpuwatch`."""

from __future__ import annotations

import os
from pathlib import Path

from gpuwatch.rules.model.errors import RulesError
from gpuwatch.whole_file import read_own

MOST_BYTES = 16 << 20
"""Of a rule pack."""


def settings_folder() -> Path:
    """The folder; nobody has made it yet, perhaps."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "gpuwatch"


def own_packs() -> list[Path]:
    """The person's own rule packs there, by name.

    Raises:
        RulesError: one of them cannot be read, or somebody else may have written it.
    """
    packs = sorted((settings_folder() / "rules").glob("*.yaml"))
    problems = [f"{pack}: {why}" for pack in packs if (why := _trouble(pack))]
    if problems:
        raise RulesError(problems)
    return packs


def _trouble(pack: Path) -> str | None:
    """Why a pack is not taken; None: it is."""
    try:
        read_own(pack, MOST_BYTES)
    except OSError as error:
        return error.strerror or str(error)
    return None
