"""The outputs of `gpuwatch probe` other than the report: JSON, CSV, a baseline."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from gpuwatch.cli.shared.output import OutputError, writing
from gpuwatch.cli.shared.source import Refusal, Source
from gpuwatch.plain import plain
from gpuwatch.whole_file import open_in_place, own_target

if TYPE_CHECKING:
    from gpuwatch.probe.judging.checks.baseline import Baseline
    from gpuwatch.probe.results import Results

STDOUT = "-"
TRIAL_BYTES = 64 << 10
"""Size of the JSON of a small probe, used to test that the disk has space; 1,024 ranks need more."""


class Outputs(Struct, frozen=True):
    """The files for JSON, CSV and the baseline; None for one that is not requested, `-` for stdout."""

    json: str | None
    csv: str | None
    baseline: str | None

    @property
    def text(self) -> bool:
        """True if stdout is free for the report, because neither JSON nor CSV goes there."""
        return STDOUT not in (self.json, self.csv)

    def check(self) -> None:
        """Check before the measurement that all outputs can be written.

        Raises:
            click.UsageError: Two outputs go to the same file or stdout.
            Refusal: An output cannot be written, or an existing file is not a baseline.
        """
        if self.json == self.csv == STDOUT:
            raise click.UsageError("--json - and --csv - both write to stdout; give a file for one of them.")
        named = {"--json": self.json, "--csv": self.csv, "--save-baseline": self.baseline}
        taken: dict[Path, str] = {}
        for option, name in named.items():
            if name is None or (name == STDOUT and option != "--save-baseline"):
                continue
            other = taken.setdefault(Path(name).resolve(), option)
            if other != option and not _is_device(Path(name)):
                raise click.UsageError(f"{other} and {option} both write to {name}; give a file for each.")
            problem = unwritable(Path(name))
            if problem is not None:
                raise Refusal([f"{option} {name}: cannot write: {problem}"])
        if self.baseline is not None and Path(self.baseline).exists():
            read_baseline(Path(self.baseline))


def unwritable(path: Path) -> str | None:
    """Return why a file cannot be written (folder, permission, full disk); None if it seems writable."""
    if path.is_dir():
        return "it is a directory; give a file"
    if not path.parent.is_dir():
        return f"directory {path.parent} does not exist"
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return "permission denied"
    try:
        target = own_target(path)
        if path.is_file():
            os.close(os.open(target, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW))
        if not path.exists() or (path.is_file() and os.access(path.parent, os.W_OK)):
            with tempfile.TemporaryFile(dir=path.parent) as trial:  # a full disk refuses what is written
                trial.write(bytes(TRIAL_BYTES))
    except OSError as error:
        return f"{(error.strerror or str(error)).lower()}"
    return None


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file()


def read_baseline(path: Path) -> Baseline:
    """Return the baseline in a file.

    Raises:
        Refusal: The file is not a baseline or cannot be read.
    """
    from gpuwatch.probe.judging.checks.baseline import BaselineError, load

    try:
        return load(path)
    except BaselineError as error:
        raise Refusal([str(error)]) from error


def put_data(results: Results, source: Source, outputs: Outputs) -> None:
    """Write the JSON and CSV outputs that are requested.

    Raises:
        OutputError: One cannot be written.
    """
    if not (outputs.json or outputs.csv):
        return
    from gpuwatch.report.once.json_output import to_json
    from gpuwatch.report.probe.csv_output import probe_csv
    from gpuwatch.report.probe.json_output import probe_facts

    facts = probe_facts(results, source.plan.source, demo=is_demo(source))
    if outputs.json:
        put(outputs.json, f"{to_json(facts)}\n")
    if outputs.csv:
        put(outputs.csv, probe_csv(facts))


def put(name: str, text: str) -> None:
    """Write `text` to the file `name`, or to stdout if it is `-`.

    Raises:
        OutputError: It cannot be written.
    """
    if name == STDOUT:
        with writing():
            sys.stdout.write(text)
        return
    path = Path(name)
    try:
        with os.fdopen(open_in_place(path, 0o666), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OutputError(f"cannot write {name}: {error.strerror}") from error


def keep(results: Results, name: str) -> None:
    """Save the results as a baseline; print a warning on stderr if they are not healthy.

    Raises:
        OutputError: The baseline cannot be written.
    """
    from gpuwatch.probe.judging.checks.baseline import BaselineError, save

    try:
        save(name, results)
    except BaselineError as error:
        raise OutputError(str(error)) from error
    if results.verdict is None or results.verdict.status != "ok":
        click.echo(plain(f"gpuwatch: {name} now contains a run with problems"), err=True)


def is_demo(source: Source) -> bool:
    """Return True if any node of the source is simulated."""
    return any(node.link == "demo" for node in source.plan.nodes)
