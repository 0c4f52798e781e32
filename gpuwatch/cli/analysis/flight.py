"""`gpuwatch flight`: finds the rank that a job waited for, from torch's flight recorder dumps."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Refusal


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON; see docs/json.md.")
@click.option(
    "--world-size",
    "world",
    type=click.IntRange(1, 1 << 20),
    help="Number of ranks of the job, if the last dumps are missing and gloo does not record it.",
)
def flight(paths: tuple[Path, ...], as_json: bool, world: int | None) -> int:
    """Find the rank that a hung job waited for, from its flight-recorder dumps.

    PATH is a dump or a folder of dumps, as torch writes them on a timeout (TORCH_NCCL_DUMP_ON_TIMEOUT=1;
    their prefix is TORCH_FR_DUMP_TEMP_FILE, in older torch TORCH_NCCL_DEBUG_INFO_TEMP_FILE): pickles or
    JSON, also packed, the rank at the end of the name. Code in a pickle is never executed. Dumps may be
    missing or broken.

    Exit status: 0 no problem found in the dumps, 1 a culprit or a hang was found or a dump cannot be read,
    2 wrong usage or no dump.
    """
    missing = [f"{path}: no such file or folder" for path in paths if not os.path.exists(path)]  # noqa: PTH110 - Path raises
    if missing:
        raise Refusal(missing)
    from gpuwatch.diagnose.hang.flight_recorder.verdict import judge_flight
    from gpuwatch.report.hang.flight import flight_json, print_flight
    from gpuwatch.runs.flight.dump_files import gather_dumps

    with leaving_politely():
        read = gather_dumps(paths)
        if not read.dumps:
            raise Refusal(
                [f"{each.name}: {each.why}" for each in read.skipped[:20]]
                + ["no flight-recorder dump under " + ", ".join(str(path) for path in paths)]
            )
        analysis = judge_flight(read.dumps, world, read.closed)
    with writing():
        if as_json:
            sys.stdout.write(f"{flight_json(read, analysis)}\n")
        else:
            print_flight(read, analysis, sys.stdout)
    unknown = any(each.unreadable for each in read.skipped)  # of its rank nothing is known
    return exit_codes.UNHEALTHY if analysis.verdict.wrong or unknown else exit_codes.HEALTHY
