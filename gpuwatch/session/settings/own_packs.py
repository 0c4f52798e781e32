"""The rule packs in the person's settings folder."""

from __future__ import annotations

from pathlib import Path

from gpuwatch.own_folders import config_folder
from gpuwatch.rules.model.errors import RulesError
from gpuwatch.whole_file import read_own

MOST_BYTES = 16 << 20
"""Of a rule pack."""


def own_packs() -> list[Path]:
    """The person's own rule packs there, by name.

    Raises:
        RulesError: one of them cannot be read, or somebody else may have written it.
    """
    packs = sorted((config_folder() / "rules").glob("*.yaml"))
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
