"""The logs under the paths of a command line, and the rules to read them with."""

# ruff: noqa: PLC0415  a command line imports only what it comes to, so that --help and mistakes are answered at once

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.shared.source import Refusal
from gpuwatch.plain import plain

if TYPE_CHECKING:
    from gpuwatch.rules.load import Packs
    from gpuwatch.runs.files.files import Gathered


def gathered(
    paths: tuple[Path, ...], packs: tuple[Path, ...] = (), *, whole_files: bool = True
) -> tuple[Gathered, Packs]:
    """The logs under the paths, and the rules; files that may be logs but are left out are reported.

    `whole_files`: as in `gather`.

    Raises:
        Refusal: a path is not there, a pack has problems, or no log can be read.
    """
    missing = [str(path) for path in paths if not os.path.lexists(path)]  # it never raises, as Path does
    if missing:
        raise Refusal([f"{name}: no such file or folder" for name in missing])
    rules = load_rules(packs)
    from gpuwatch.runs.files.files import gather

    found = gather(paths, rules.column_words, whole_files=whole_files)
    for skipped in found.skipped:
        if skipped.unreadable:
            click.echo(plain(f"gpuwatch: {skipped.name}: {skipped.why}"), err=True)
    for log in found.files:
        if log.packing is None and log.size and log.path.suffix == ".gz":
            click.echo(plain(f"gpuwatch: {log.name}: not gzip data; read as plain text"), err=True)
    if not found.files:
        raise Refusal([nothing_read(paths, found)])
    return found, rules


def nothing_read(paths: tuple[Path, ...], found: Gathered) -> str:
    """The message that no log was found, and what was found instead: an empty folder proves nothing."""
    from gpuwatch.report.scan.text import skipped_text

    where = plain(", ".join(str(path) for path in paths))
    return f"no readable log in {where}" + (f": {skipped_text(found.skipped)}" if found.skipped else "")


def load_rules(extra: tuple[Path, ...]) -> Packs:
    """The built-in packs and the user's own.

    Raises:
        Refusal: a pack has problems.
    """
    from gpuwatch.rules.load import load_packs
    from gpuwatch.rules.model.errors import RulesError

    try:
        return load_packs(extra)
    except RulesError as error:
        raise Refusal(list(error.problems)) from error
