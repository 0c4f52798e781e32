"""`gpuwatch scan`: finds what failed first in an ended job, from its logs."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import contextlib
import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.analysis.found_logs import gathered
from gpuwatch.cli.shared import completed, exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.signals import StopRequest, ctrl_c_stops, leaving_politely
from gpuwatch.cli.shared.source import Refusal
from gpuwatch.plain import plain as sanitized

if TYPE_CHECKING:
    from gpuwatch.rules.load import Packs
    from gpuwatch.runs.files.files import Gathered
    from gpuwatch.runs.scan.result import Engine
    from gpuwatch.runs.scan.scan import Watch


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON; see docs/json.md.")
@click.option("-v", "--verbose", is_flag=True, help="Show the evidence and timeline of each incident.")
@click.option(
    "--rules",
    "packs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Additional rule pack; may be repeated.",
)
@click.option(
    "--engine",
    type=click.Choice(["agent", "hyperscan"]),
    help="What searches first: hyperscan where it is installed (pip install 'gpuwatch-cluster[hyperscan]'), "
    "else what also runs on the nodes. Both find the same.",
)
@click.option(
    "--slurm",
    "slurm_job",
    metavar="JOB",
    shell_complete=completed.slurm_jobs,
    help="Also scan the output files of this Slurm job.",
)
@click.option("--open", "in_screens", is_flag=True, help="Open the screens instead, as `gpuwatch open`.")
def scan(
    paths: tuple[Path, ...], as_json: bool, verbose: bool, packs: tuple[Path, ...], engine: Engine | None,
    in_screens: bool, slurm_job: str | None,
) -> int:  # fmt: skip
    """Find what failed first in the logs of an ended job.

    PATH is a file or a folder; .gz, .zst, .xz and .bz2 are unpacked. Logs of ranks, kernel logs
    (dmesg-gpu-002.log) and the output of launchers and Slurm may be in one folder: ranks and nodes are
    read from paths and lines.

    Exit status: 0 the job finished, or no problem was seen; 1 something was found, the job stopped
    before its announced end, or a log was not read to its end; 2 wrong usage or nothing that can be read.
    """
    if slurm_job is not None:
        paths = (*paths, *job_outputs(slurm_job))
    if not paths:
        raise click.UsageError("name at least one PATH, or a job with --slurm.")
    found, rules = gathered(paths, packs)
    check_engine(engine)
    if not in_screens:
        return scan_and_print(found, rules, engine, as_json=as_json, verbose=verbose)
    if as_json:
        raise click.UsageError("--open shows screens; leave out --json.")
    from gpuwatch.cli.analysis.open_logs import open_logs

    report = partial(scan_and_print, found, rules, engine, verbose=verbose)
    return open_logs(paths, found, rules, report, {})


def job_outputs(job: str) -> list[Path]:
    """Return the output files of a Slurm job that exist on this machine; print its state on stderr.

    Raises:
        Refusal: Slurm does not know the job, or none of its files is here.
    """
    from gpuwatch.hosts.slurm.commands import known_job
    from gpuwatch.hosts.slurm.plan import output_files
    from gpuwatch.hosts.validation.errors import HostsError

    try:
        found = known_job(job)
    except HostsError as error:
        raise Refusal(list(error.problems)) from error
    files = output_files(found)
    present = [path for path in files if is_regular(path)]
    if not present:
        listed = ", ".join(map(str, files)) or "none is known"
        raise Refusal([f"--slurm {job}: no output file of the job is on this machine ({listed})"])
    state = f"{found.state} {found.exit_code}".strip()
    click.echo(f"gpuwatch: job {found.id} ({sanitized(found.name)}): {sanitized(state)}", err=True)
    return present


def is_regular(path: Path) -> bool:
    """Return True if the path is an existing regular file; False for a folder or a path that is too long."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long
        return False


def check_engine(engine: Engine | None) -> None:
    """Check that the matching engine is installed.

    Raises:
        Refusal: The engine is not installed.
    """
    from gpuwatch.runs.prefilter import hyperscan_database

    if engine == "hyperscan" and not hyperscan_database.installed():
        raise Refusal(["hyperscan is not installed: pip install 'gpuwatch-cluster[hyperscan]'"])


def scan_and_print(
    found: Gathered, packs: Packs, engine: Engine | None, *, verbose: bool, as_json: bool = False
) -> int:
    """Scan the logs, judge them and print the report to stdout; return the exit status.

    Ctrl-C ends the scan; the findings until then are printed. `verbose` adds evidence and timelines to the
    text; `as_json` prints JSON instead.

    Raises:
        Refusal: Nothing could be read.
    """
    import time

    from gpuwatch.runs.scan.scan import scan as scan_files

    stop = StopRequest()
    total = sum(log.size for log in found.files)
    with leaving_politely(), ctrl_c_stops(stop), progress(total, len(found.files), stop) as watch:
        began = time.monotonic()
        result = scan_files(found, packs.all, engine, replace(watch, meanwhile=import_judgement))
        from gpuwatch.runs.flight.dump_files import dumps_beside

        result, dumps = (result, []) if result.stopped else dumps_beside(found, result)
        seconds = time.monotonic() - began
    if result.bytes == 0 and not result.stopped:
        raise Refusal([f"{file.name}: {file.trouble or 'empty'}" for file in result.files])
    from gpuwatch.report.scan.report import judged

    report = judged(result, packs, time.time(), seconds, dumps)
    with writing():
        if as_json:
            from gpuwatch.report.scan.report import scan_json

            sys.stdout.write(f"{scan_json(report)}\n")
        else:
            from gpuwatch.report.output.masked import masked_line
            from gpuwatch.report.scan.report import scan_facts
            from gpuwatch.report.scan.text import print_scan

            print_scan(report, sys.stdout, verbose=verbose)
            sys.stdout.write(masked_line(scan_facts(report)["secrets_masked"]))
    if result.stopped:
        click.echo("gpuwatch: interrupted; showing the results so far", err=True)
        return exit_codes.INTERRUPTED
    return exit_codes.UNHEALTHY if report.has_problems else exit_codes.HEALTHY


def import_judgement() -> None:
    """Import what judges and prints the result, which takes a tenth of a second."""
    import gpuwatch.report.scan.report
    import gpuwatch.runs.flight.dump_files  # noqa: F401  the import is all that is wanted


def progress(total: int, files: int, stop: StopRequest) -> AbstractContextManager[Watch]:
    """Return a context that gives the scan's `Watch`, with a progress bar on stderr if that is a terminal."""
    from gpuwatch.runs.scan.scan import Watch

    if not sys.stderr.isatty():
        return contextlib.nullcontext(Watch(stopping=stop))
    from gpuwatch.report.scan.progress import progress_bar

    return progress_bar(total, files, stop)
