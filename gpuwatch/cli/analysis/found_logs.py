"""Finds the logs under the paths of a command line, and loads the rules to read them with."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

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
    """Return the logs under the paths, and the rule packs; report unreadable files on stderr.

    A .gz file without gzip data is reported, too, and read as text.

    `packs` are the user's own rule packs; `whole_files` is passed to `gather`.

    Raises:
        Refusal: A path does not exist, a pack has problems, or there is no readable log.
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
    """Return the message that no log under the paths is readable, with the skipped files and the reasons."""
    from gpuwatch.report.scan.text import skipped_text

    where = plain(", ".join(str(path) for path in paths))
    return f"no readable log in {where}" + (f": {skipped_text(found.skipped)}" if found.skipped else "")


def load_rules(extra: tuple[Path, ...]) -> Packs:
    """Return the built-in rule packs and the user's own (`extra`).

    Raises:
        Refusal: A pack has problems.
    """
    from gpuwatch.rules.load import load_packs
    from gpuwatch.rules.model.errors import RulesError

    try:
        return load_packs(extra)
    except RulesError as error:
        raise Refusal(list(error.problems)) from error
