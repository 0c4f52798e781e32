"""`gpuwatch evidence FOLDER`: writes the bundle of an ended job from its logs."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.analysis.found_logs import load_rules, nothing_read
from gpuwatch.cli.analysis.scan import progress
from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import OutputError
from gpuwatch.cli.shared.signals import StopRequest
from gpuwatch.cli.shared.source import Refusal
from gpuwatch.plain import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpuwatch.diagnose.model.incident import Incident
    from gpuwatch.report.scan.report import ScanReport

LISTED_PARTS = 3
"""Maximum number of missing parts with the same reason that stderr lists individually."""


def bundle_folder(folder: Path, out: Path, incident: str | None, *, whole_logs: bool, artifacts: bool) -> int:
    """Scan the folder and write the bundle to `out`; return the exit status.

    Args:
        folder: The logs of one ended job.
        out: The zip file.
        incident: Number or id of the only incident to bundle; None: all.
        whole_logs: Copy whole logs, not only the lines around the evidence.
        artifacts: Also copy profiler traces, TensorBoard events and configuration.

    Raises:
        Refusal: The folder holds no readable log, or no such incident was found.
        OutputError: `out` cannot be written.
    """
    from gpuwatch.number_text import file_size, plural
    from gpuwatch.report.evidence.bundle_file import BundleFile
    from gpuwatch.report.evidence.folder import FolderBundle, folder_artifacts
    from gpuwatch.report.evidence.progress import written_bar

    report = scanned(folder)
    bundle = FolderBundle(folder, report, chosen(report, incident), whole_logs)
    if artifacts:
        bundle.artifacts, bundle.missing = folder_artifacts(folder)
    counted = f"{plural(len(bundle.incidents), 'incident')}, {plural(len(report.scan.files), 'log')}"
    more = f", {plural(len(bundle.artifacts), 'artifact')}" if artifacts else ""
    click.echo(plain(f"{folder}: {counted}{more}, {file_size(bundle.bytes)}"), err=True)
    try:
        file = BundleFile(out.absolute())
        try:
            with written_bar(bundle.bytes) as written:
                for size in bundle.steps(file):
                    written(size)
        finally:
            file.discard()
    except OSError as error:
        raise OutputError(f"cannot write {out}: {error.strerror or error}") from error
    click.echo(missing_text(bundle.missing), err=True, nl=False)
    click.echo(plain(f"{out}: {file_size(out.stat().st_size)}, begin with its index.md"))
    return exit_codes.HEALTHY


def missing_text(missing: Iterable[tuple[str, str]]) -> str:
    """Return a line for each part that is missing from a bundle, with the reason.

    More than `LISTED_PARTS` parts with the same reason share a line, which names the first. `missing`: (part,
    reason).
    """
    by_reason: dict[str, list[str]] = {}
    for what, why in missing:
        by_reason.setdefault(why, []).append(what)
    lines: list[str] = []
    for why, parts in by_reason.items():
        if len(parts) <= LISTED_PARTS:
            lines += (f"{what}: {why}" for what in parts)
        else:
            lines.append(f"{parts[0]} and {len(parts) - 1} more: {why}; index.md lists them")
    return "".join(f"{plain(f'gpuwatch: not in the bundle: {line}')}\n" for line in lines)


def scanned(folder: Path) -> ScanReport:
    """Scan the logs in a folder and return the report, with the flight-recorder dumps beside the logs.

    Raises:
        Refusal: There is no readable log.
    """
    from gpuwatch.report.scan.report import judged
    from gpuwatch.runs.files.files import gather
    from gpuwatch.runs.flight.dump_files import dumps_beside
    from gpuwatch.runs.scan.scan import scan as scan_files

    rules = load_rules(())
    found = gather((folder,), rules.column_words)
    if not found.files:
        raise Refusal([nothing_read((folder,), found)])
    began = time.monotonic()
    with progress(sum(log.size for log in found.files), len(found.files), StopRequest()) as watch:
        result = scan_files(found, rules.all, None, watch)
    result, dumps = dumps_beside(found, result)
    return judged(result, rules, time.time(), time.monotonic() - began, dumps)


def chosen(report: ScanReport, incident: str | None) -> Sequence[Incident]:
    """Return the incident with this number or id, as a sequence of one; all incidents if `incident` is None.

    Raises:
        Refusal: There is no such incident.
    """
    from gpuwatch.session.evidence.subject import UnknownSubjectError, chosen_incident

    if incident is None:
        return report.incidents
    try:
        one = chosen_incident(report.incidents, incident)
    except UnknownSubjectError as error:
        raise Refusal([plain(str(error))]) from error
    return () if one is None else (one,)
