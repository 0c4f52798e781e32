"""The times of a rank's GPU kernels as text: a sentence, and a table by name."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from gpuwatch.blocks.model import Line
from gpuwatch.diagnose.profiles.profiled_rank import ProfiledRank
from gpuwatch.number_text import plural
from gpuwatch.report.output.console import show
from gpuwatch.wire import ProcessKernels

NAMES = {"kernel": "kernels", "copy": "copies", "memset": "fills", "cpu_op": "operators on the CPU"}
MAX_ROWS = 15


def print_kernels(profile: ProfiledRank, console: Console) -> None:
    """Write the first kernels of a rank by time, or why there are none; nothing if none were recorded."""
    kernels = profile.kernels
    if kernels is None:
        return
    show(console, Line(""))
    show(
        console,
        Line(kernels_text(profile.rank, kernels), "warning" if kernels.why else "plain", hang=2),
    )
    if not kernels.work:
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("ms", "% of span", "count"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("name", overflow="fold")
    for each in kernels.work[:MAX_ROWS]:
        share = f"{100.0 * each.seconds / kernels.span_s:.1f}" if kernels.span_s else "-"
        table.add_row(f"{1e3 * each.seconds:.2f}", share, str(each.count), each.category, each.name, style="")
    console.print(table)


def kernels_text(rank: int, kernels: ProcessKernels) -> str:
    """Return a sentence with the time that a rank's GPU was busy, and with which kernels; or why unknown."""
    if kernels.why is not None:
        return f"Kernels of rank {rank}: {kernels.why}"
    span = "" if kernels.span_s is None else f" in {kernels.span_s:.2f} s"
    parts = [f"{each.count} {NAMES[each.category]} {each.seconds:.3f} s" for each in kernels.totals]
    if kernels.left_out:
        parts.append(f"{plural(kernels.left_out, 'event')} without a plausible time left out")
    if kernels.busy_s is None:
        busy = "no event of a GPU in its trace"
    else:
        share = (
            "" if not kernels.span_s else f" ({min(100.0, 100.0 * kernels.busy_s / kernels.span_s):.0f} %)"
        )
        busy = f"its GPU was busy for {kernels.busy_s:.3f} s{share}"
    return f"Kernels of rank {rank}{span}: " + "; ".join([busy, *parts])
