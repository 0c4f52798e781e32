"""`gpuwatch trace`: shows where a training spent its time, from its profiler's traces."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Refusal

if TYPE_CHECKING:
    from gpuwatch.diagnose.traces.scale_comparison import ScaleTimes
    from gpuwatch.runs.traces.trace_files import FoundTraces


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON; see docs/json.md.")
@click.option(
    "--rank",
    type=click.IntRange(0),
    help="Rank whose operators are listed; default: the straggler, else the first.",
)
@click.option(
    "--top", type=click.IntRange(1, 1000), default=20, show_default=True, help="Rows of each table."
)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Traces of the same training on another number of GPUs, to compare a step with. Repeatable.",
)
def trace(
    paths: tuple[Path, ...], as_json: bool, rank: int | None, top: int, baselines: tuple[Path, ...]
) -> int:
    """Show where the time of a profiled training run went: compute, communication, copies, idle.

    PATH is a trace of torch.profiler (Chrome trace, .json or .json.gz), a report of Nsight Systems that was
    exported to SQLite, or a folder of them, one for each rank. The rank is read from the trace or its name.
    Of several traces of one rank (cycles of the profiler) the newest is judged, the others are listed.
    Traces of any size are read in pieces. NCCL's dumps (NCCL_TOPO_DUMP_FILE, NCCL_GRAPH_DUMP_FILE) are
    read, too: rings, trees, which NIC serves which GPU, and what is slower than its neighbours.

    Exit status: 0 nothing is flagged; 1 communication above 0.3 of computation, ranks more than 10 % apart,
    or a GPU idle more than 30 %, or a trace cannot be read; 2 wrong usage or no trace.
    """
    missing = [f"{path}: no such file or folder" for path in (*paths, *baselines) if not os.path.exists(path)]  # noqa: PTH110 - Path raises
    if missing:
        raise Refusal(missing)
    from gpuwatch.diagnose.traces.topology_verdict import judge_topology
    from gpuwatch.diagnose.traces.trace_verdict import judge_traces
    from gpuwatch.report.output.read_progress import read_progress
    from gpuwatch.report.trace.json_output import trace_json
    from gpuwatch.report.trace.text import print_trace
    from gpuwatch.runs.traces.trace_files import gather_traces, total_size

    with leaving_politely(), read_progress(total_size(paths)) as report:
        found = gather_traces(paths, report, top)
    if not found.profiles and not found.dumps:
        reasons = [f"{each.name}: {each.why}" for each in found.skipped[:20]]
        raise Refusal([*reasons, "no trace under " + ", ".join(str(path) for path in paths)])
    scales = scales_of(paths, found, baselines)
    verdict = judge_traces(found.profiles)
    chosen = next((each for each in found.profiles if rank is not None and each.trace.rank == rank), None)
    if rank is not None and chosen is None:
        raise Refusal([f"no trace of rank {rank}"])
    with writing():
        if as_json:
            sys.stdout.write(f"{trace_json(found, verdict, scales)}\n")
        else:
            first = found.profiles[0] if found.profiles else None
            print_trace(found, verdict, chosen or verdict.straggler or first, sys.stdout, scales)
    unread = any(each.unreadable for each in found.skipped)
    differs = any(judge_topology(each) for each in found.dumps)
    return exit_codes.UNHEALTHY if verdict.flags or differs or unread else exit_codes.HEALTHY


def scales_of(paths: Sequence[Path], found: FoundTraces, baselines: Sequence[Path]) -> list[ScaleTimes]:
    """Return the times of a step of the traces and of each baseline; empty without baselines.

    Raises:
        Refusal: `paths` or a baseline has no trace with operators.
    """
    from gpuwatch.diagnose.traces.scale_comparison import scale_times
    from gpuwatch.runs.traces.trace_files import gather_traces

    if not baselines:
        return []
    known = [scale_times(" ".join(map(str, paths)), found.profiles)]
    for path in baselines:
        with leaving_politely():
            known.append(scale_times(str(path), gather_traces([path], listed=1).profiles))
    missing = [str(path) for path, times in zip((paths[0], *baselines), known, strict=True) if times is None]
    if missing:
        raise Refusal([f"{path}: no trace with operators" for path in missing])
    return [each for each in known if each is not None]
