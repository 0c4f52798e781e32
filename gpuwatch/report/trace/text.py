"""Measured traces as text: flags first, then a line per rank, then the tables of one rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuwatch.blocks.model import Line
from gpuwatch.diagnose.traces.scale_comparison import ScaleTimes
from gpuwatch.diagnose.traces.topology_verdict import judge_topology
from gpuwatch.diagnose.traces.trace_verdict import (
    MAX_COMMUNICATION_TO_COMPUTE,
    RankSpread,
    TraceVerdict,
    compare_sections,
    per_step,
)
from gpuwatch.number_text import gigabytes, plural
from gpuwatch.plain import plain
from gpuwatch.report.output.console import STYLES, console_on, show
from gpuwatch.report.trace.scales import print_scales
from gpuwatch.report.trace.topology import topology_lines, topology_table
from gpuwatch.runs.traces.nccl_dump import NcclDump
from gpuwatch.runs.traces.operators import Operator
from gpuwatch.runs.traces.rank_profile import RankProfile
from gpuwatch.runs.traces.trace_files import FoundTraces

MAX_SHOWN_RANKS = 64
MAX_SHOWN_FLAGS = 4
"""Maximum number of flags of one kind that are listed."""
MAX_SHOWN_SECTIONS = 12
MAX_SHOWN_OLDER = 8
NAME_COLUMNS = 48
SECTIONS_ONLY = "Sections only: the trace has no operators and no kernels (torch.profiler records them)."
CPU_ONLY = (
    "No GPU events (CPU-only trace): compute and communication are those of operators on the CPU; "
    "record with ProfilerActivity.CUDA to see kernels."
)


def print_trace(
    found: FoundTraces,
    verdict: TraceVerdict,
    chosen: RankProfile | None,
    out: TextIO,
    scales: Sequence[ScaleTimes] = (),
) -> None:
    """Write the report on traces.

    Args:
        found: The traces.
        verdict: The findings from the traces.
        chosen: The rank whose tables are shown; None: no rank has a trace.
        out: The stream to write to.
        scales: The times of a step of these traces and of their baselines; empty without baselines.
    """
    with console_on(out) as console:
        for dump in found.dumps:
            print_dump(dump, console)
        if chosen is None:
            for line in skipped_lines(found):
                show(console, line)
            return
        for line in flag_lines(verdict):
            show(console, line)
        if any(each.has_operators for each in found.profiles):
            console.print(rank_table(found.profiles))
        else:
            show(console, Line(SECTIONS_ONLY, hang=2))
        sections = section_table(found.profiles)
        if sections.row_count:
            show(console, Line(""))
            show(console, Line("Sections, over all ranks (mean time per pass, ms)"))
            console.print(sections)
        for line in comparison_lines(found, verdict):
            show(console, line)
        print_scales(scales, console)
        for heading, table in tables_of(chosen):
            if table.row_count:
                show(console, Line(""))
                show(console, Line(heading))
                console.print(table)
        for line in note_lines(found, chosen):
            show(console, line)


def print_dump(dump: NcclDump, console: Console) -> None:
    """Print NCCL's topology or graphs, preceded by the problems found in them."""
    flags = judge_topology(dump)
    show(console, Line(plain(f"NCCL, {dump.file}")))
    for line in topology_lines(dump, flags):
        show(console, line)
    if dump.devices:
        console.print(topology_table(dump))
    show(console, Line(""))


def flag_lines(verdict: TraceVerdict) -> Iterator[Line]:
    """Yield lines with the first flags of each kind and its remedies; `no problems detected` without any."""
    for code in dict.fromkeys(flag.code for flag in verdict.flags):
        alike = [flag for flag in verdict.flags if flag.code == code]
        for flag in alike[:MAX_SHOWN_FLAGS]:
            limit = "" if flag.limit is None else f" (limit {flag.limit:g})"
            yield Line(plain(flag.text) + limit, "warning", hang=2)
        if len(alike) > MAX_SHOWN_FLAGS:
            yield Line(f"{len(alike) - MAX_SHOWN_FLAGS} more ranks are flagged for the same", "warning")
        for action in alike[0].actions:
            yield Line(f"  - {action}", hang=4)
    yield Line("" if verdict.flags else "no problems detected", "plain" if verdict.flags else "ok")


def rank_table(profiles: Sequence[RankProfile]) -> Table:
    """Return a table with the times of the first ranks, in milliseconds and percent of their spans."""
    table = Table(box=None, pad_edge=False)
    table.add_column("rank", no_wrap=True)
    for heading in (
        "span ms",
        "compute",
        "communication",
        "memory copy",
        "other",
        "idle",
        "exposed",
        "comm/comp",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in profiles[:MAX_SHOWN_RANKS]:
        parts = each.breakdown
        values = (
            parts.compute_ms,
            parts.communication_ms,
            parts.memory_copy_ms,
            parts.other_ms,
            parts.idle_ms,
        )
        ratio = parts.communication_to_compute
        high = ratio is not None and ratio > MAX_COMMUNICATION_TO_COMPUTE
        table.add_row(
            Text(plain(each.label)),
            f"{parts.span_ms:,.2f}",
            *(f"{value:,.2f} {_share(parts.share(value))}" for value in values),
            _share(parts.exposed_share),
            Text("-" if ratio is None else f"{ratio:.2f}", STYLES["warning"] if high else ""),
        )
    return table


def comparison_lines(found: FoundTraces, verdict: TraceVerdict) -> Iterator[Line]:
    """Yield lines with older traces, the spread of the ranks, and the straggler, or why none is named."""
    yield from older_lines(found)
    if len(found.profiles) > MAX_SHOWN_RANKS:
        yield Line(f"{len(found.profiles) - MAX_SHOWN_RANKS} more ranks: --json lists them all", "muted")
    if any(each.breakdown.basis == "cpu" and each.has_operators for each in found.profiles):
        yield Line(CPU_ONLY, "warning", hang=2)
    of = per_step(found.profiles)
    for name, spread in (("computation", verdict.compute), ("communication", verdict.communication)):
        if spread is not None and spread.most > 0:
            yield Line(f"{name} {of}: {spread_text(spread)}")
    if verdict.doubt is not None:
        yield Line(plain(f"no straggler is named: {verdict.doubt}"))
    if verdict.straggler is not None:
        yield Line(f"straggler: {plain(verdict.straggler.label)}, confidence {verdict.confidence}", "warning")


def older_lines(found: FoundTraces) -> Iterator[Line]:
    """Yield a line for each older trace of the same ranks, at most `MAX_SHOWN_OLDER`; nothing without any."""
    if not found.older:
        return
    yield Line("Each rank is shown by its newest trace; older traces of the same ranks:", hang=2)
    for each in found.older[:MAX_SHOWN_OLDER]:
        parts = each.breakdown
        who = "" if each.trace.rank is None else f"{each.label}: "
        times = f"span {parts.span_ms:,.2f} ms, compute {parts.compute_ms:,.2f}"
        times += f", communication {parts.communication_ms:,.2f}"
        yield Line(plain(f"  {who}{each.trace.file}: {times}"), "muted", hang=4)
    if len(found.older) > MAX_SHOWN_OLDER:
        yield Line(f"  {len(found.older) - MAX_SHOWN_OLDER} more: --json lists them all", "muted")


def section_table(profiles: Sequence[RankProfile]) -> Table:
    """Return a table of the first sections that all ranks have: times, fastest, slowest rank, imbalance."""
    table = _table("section", "mean", "std", "min", "max", "imbalance")
    for each in compare_sections(profiles)[:MAX_SHOWN_SECTIONS]:
        spread = each.spread
        imbalance = spread.imbalance
        table.add_row(
            _name(each.name),
            f"{spread.mean:,.3f}",
            f"{spread.std:,.3f}",
            f"{spread.least:,.3f} ({plain(spread.least_label)})",
            f"{spread.most:,.3f} ({plain(spread.most_label)})",
            "-" if imbalance is None else f"{100 * imbalance:.0f} %",
        )
    return table


def spread_text(spread: RankSpread) -> str:
    """Return `mean 12.1 ms, std 0.4, min 11.0 (rank 3), max 14.9 (rank 1), imbalance 32 %`."""
    imbalance = spread.imbalance
    return (
        f"mean {spread.mean:.1f} ms, std {spread.std:.1f},"
        f" min {spread.least:.1f} ({plain(spread.least_label)}),"
        f" max {spread.most:.1f} ({plain(spread.most_label)}), imbalance"
        f" {'-' if imbalance is None else f'{100 * imbalance:.0f} %'}"
    )


def tables_of(profile: RankProfile) -> Iterator[tuple[str, Table]]:
    """Yield the heading and the table of each part of one rank's profile.

    At most MAX_SHOWN_SECTIONS sections, and as many modules.
    """
    label, tables = plain(profile.label), profile.tables
    collectives = _table("collective", "calls", "total ms", "exposed ms", "MB a call")
    for each in profile.breakdown.collectives:
        size = "-" if each.bytes is None else f"{each.bytes / max(1, each.calls) / 1e6:,.2f}"
        row = f"{each.calls:,}", f"{each.total_ms:,.2f}", f"{each.exposed_ms:,.2f}", size
        collectives.add_row(Text(each.name), *row)
    yield f"Collectives of {label}", collectives
    yield f"Operators of {label} by self CPU time", _operators(tables.by_self_cpu)
    yield f"Operators of {label} by CUDA time", _operators(tables.by_gpu)
    kernels = _table("kernel", "calls", "total ms")
    for kernel in tables.kernels:
        kernels.add_row(_name(kernel.name), f"{kernel.calls:,}", f"{kernel.total_ms:,.3f}")
    yield f"Kernels of {label}", kernels
    sections = _table("section", "calls", "total ms", "mean ms", "max ms")
    for section in profile.sections[:MAX_SHOWN_SECTIONS]:
        mean = section.total_ms / section.calls
        times = (section.total_ms, mean, section.longest_ms)
        sections.add_row(_name(section.name), f"{section.calls:,}", *(f"{each:,.3f}" for each in times))
    yield f"Sections of {label}", sections
    modules = _table("module", "operators")
    for name, count in tables.modules[:MAX_SHOWN_SECTIONS]:
        modules.add_row(_name(name), f"{count:,}")
    yield f"Modules of {label}", modules


def note_lines(found: FoundTraces, chosen: RankProfile) -> Iterator[Line]:
    """Yield lines with peak memory, notes on damaged, incomplete and skipped files, and counts."""
    yield Line("")
    for device, size in sorted(chosen.trace.peak_allocated.items()):
        reserved = chosen.trace.peak_reserved.get(device)
        more = f", {gigabytes(reserved)} reserved" if reserved else ""
        yield Line(f"peak memory of {plain(chosen.label)} on {device}: {gigabytes(size)} allocated{more}")
    for each in (*found.profiles, *found.older):
        trace = each.trace
        for note in dict.fromkeys((*trace.notes, *(("it is cut off",) if trace.cut_off else ()))):
            yield Line(plain(f"{trace.file}: {note}"), "warning")
        if trace.unreadable:
            yield Line(plain(f"{trace.file}: {plural(trace.unreadable, 'event')} not readable"), "warning")
    yield from skipped_lines(found)
    events = sum(each.event_count for each in found.profiles)
    yield Line(f"{plural(len(found.profiles), 'rank')}, {events:,} operators and kernels", "muted")


def skipped_lines(found: FoundTraces) -> Iterator[Line]:
    """Yield a line for each file that was not read: its name and the reason."""
    for skipped in found.skipped:
        yield Line(plain(f"{skipped.name}: {skipped.why}"), "warning" if skipped.unreadable else "muted")


def _operators(operators: Sequence[Operator]) -> Table:
    with_gpu = any(each.total_gpu_ms is not None for each in operators)
    with_flops = any(each.flops for each in operators)
    headings = ["operator", "calls", "self CPU ms", "CPU total ms"]
    headings += ["self CUDA ms", "CUDA total ms"] if with_gpu else []
    table = _table(*headings, *(["GFLOP"] if with_flops else []))
    with_shapes = any(each.shapes for each in operators)
    if with_shapes:
        table.add_column("largest share: shapes", overflow="ellipsis", no_wrap=True, max_width=40)
    for each in operators:
        row = [f"{each.calls:,}", f"{each.self_cpu_ms:,.3f}", f"{each.total_cpu_ms:,.3f}"]
        if with_gpu:
            row += [f"{value or 0.0:,.3f}" for value in (each.self_gpu_ms, each.total_gpu_ms)]
        row += ([f"{each.flops / 1e9:,.2f}" if each.flops else "-"]) if with_flops else []
        cells: list[Text | str] = [_name(each.name), *row]
        cells += [Text(each.shapes[0] if each.shapes else "-")] if with_shapes else []
        table.add_row(*cells)
    return table


def _table(first: str, *headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True, overflow="ellipsis", max_width=NAME_COLUMNS)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _name(name: str) -> Text:
    return Text(plain(name))


def _share(share: float | None) -> str:
    return "   -" if share is None else f"{100 * share:3.0f}%"
