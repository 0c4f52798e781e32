"""`gpuwatch memory`: shows the ranks' GPU memory, from torch's snapshots and from logs."""

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

MAX_ADDRESS_SPACE_BYTES = 8 << 30
"""Limit of this process's address space: enough for the largest accepted snapshot."""


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON; see docs/json.md.")
def memory(paths: tuple[Path, ...], as_json: bool) -> int:
    """Show what the ranks of a job hold in GPU memory: allocated, reserved, peak, fragmentation.

    PATH is a memory snapshot of torch (torch.cuda.memory._dump_snapshot), a log with torch's
    memory_summary(), DeepSpeed's see_memory_usage lines or Megatron's memory lines, or a folder of them.
    Code in a pickle is never executed. The rank is read from the line, the file's name or its folder.

    Exit status: 0 nothing is flagged; 1 peaks more than 20 % apart, fragmentation above 20 %, a failed
    request, unequal partitions of the optimizer state, a report that is cut off or states no size, or a
    file that cannot be read; 2 wrong usage or no memory report.
    """
    missing = [f"{path}: no such file or folder" for path in paths if not os.path.exists(path)]  # noqa: PTH110 - Path raises
    if missing:
        raise Refusal(missing)
    from gpuwatch.diagnose.traces.memory_verdict import judge_memory
    from gpuwatch.report.trace.memory import memory_json, print_memory
    from gpuwatch.runs.memory.memory_files import gather_memory
    from gpuwatch.runs.scan.workers import limit_memory

    limit_memory(MAX_ADDRESS_SPACE_BYTES)  # a hostile pickle of a few bytes may ask for any amount
    with leaving_politely():
        found = gather_memory(paths)
    if not found.ranks:
        reasons = [f"{each.name}: {each.why}" for each in found.skipped[:20]]
        raise Refusal([*reasons, "no memory report under " + ", ".join(str(path) for path in paths)])
    verdict = judge_memory(found.ranks, found.partitions)
    with writing():
        if as_json:
            sys.stdout.write(f"{memory_json(found, verdict)}\n")
        else:
            print_memory(found, verdict, sys.stdout)
    unread = any(each.unreadable for each in found.skipped)
    return exit_codes.UNHEALTHY if verdict.flags or unread else exit_codes.HEALTHY
