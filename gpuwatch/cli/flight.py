"""`gpuwatch flight`: which rank a job waited for, from the dumps of torch's flight recorder."""

# ruff: noqa: PLC0415  a command line imports only what it comes to, so that --help and mistakes are answered at once

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpuwatch.cli import exit_codes
from gpuwatch.cli.ending import leaving_politely
from gpuwatch.cli.output import writing
from gpuwatch.cli.source import Refusal


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="As JSON; docs/json.md tells every key.")
@click.option(
    "--world-size",
    "world",
    type=click.IntRange(1, 1 << 20),
    help="Ranks of the job, where the dumps of the last ones are missing and gloo does not tell.",
)
def flight(paths: tuple[Path, ...], as_json: bool, world: int | None) -> int:
    """Name the rank that a hung job waited for, from the dumps of its flight recorder.

    PATH is a dump or a folder of them, as torch writes them on a timeout (TORCH_NCCL_DUMP_ON_TIMEOUT=1;
    their prefix is TORCH_FR_DUMP_TEMP_FILE, in older torch TORCH_NCCL_DEBUG_INFO_TEMP_FILE): pickles or
    JSON, also packed, the rank at the end of the name. Nothing in a pickle is ever run. Dumps may be missing
    or broken.

    Exit status: 0 nothing is wrong, 1 a culprit or a standstill was found, 2 wrong usage or no dump.
    """
    missing = [f"{path}: no such file or folder" for path in paths if not path.exists()]
    if missing:
        raise Refusal(missing)
    from gpuwatch.diagnose.flight import judge_flight
    from gpuwatch.report.flight import flight_json, print_flight
    from gpuwatch.runs.flight_files import gather_dumps

    with leaving_politely():
        read = gather_dumps(paths)
        if not read.dumps:
            raise Refusal(
                [f"{each.name}: {each.why}" for each in read.skipped[:20]]
                + ["no flight recorder's dump under " + ", ".join(str(path) for path in paths)]
            )
        verdict = judge_flight(read.dumps, world, read.closed)
    with writing():
        if as_json:
            sys.stdout.write(f"{flight_json(read, verdict)}\n")
        else:
            print_flight(read, verdict, sys.stdout)
    return exit_codes.UNHEALTHY if verdict.testimony.wrong else exit_codes.HEALTHY
