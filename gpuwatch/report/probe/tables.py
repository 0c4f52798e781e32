"""The tables of a probe as text lines: collectives, single-GPU tests, changed counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Generic, TypeVar

from msgspec import Struct
from rich.cells import cell_len

from gpuwatch.blocks.model import Line, Style
from gpuwatch.number_text import UNKNOWN, counted, rate_text, scaled_text, share_text, size_text, time_text
from gpuwatch.plain import plain
from gpuwatch.probe.results import CollectiveResult, CounterChange, GpuResult, Results, slots_by_rank
from gpuwatch.report.probe.format import gb_per_s, rank_name

T = TypeVar("T")

GAP = 2
MAX_TABLE_GPUS = 32
"""With more GPUs, only the median and the slowest are listed."""
SHOWN_SLOW = 8
SHOWN_COUNTERS = 24


class TableColumn(Struct, Generic[T], frozen=True):
    """A column of a text table. A narrow output drops those with the highest `rank` first."""

    title: str
    text: Callable[[T], str]
    rank: int = 0
    right: bool = True


def table_lines(
    columns: Sequence[TableColumn[T]], rows: Sequence[T], width: int | None, style: Callable[[T], Style]
) -> list[Line]:
    """Return aligned columns under their titles; empty without rows.

    If they do not fit into `width` cells, the least important ones are dropped, but none of rank 0.
    """
    if not rows:
        return []
    cells = [[plain(column.text(row)) for column in columns] for row in rows]
    widths = [
        max(cell_len(text) for text in (column.title, *(row[n] for row in cells)))
        for n, column in enumerate(columns)
    ]
    kept = list(range(len(columns)))
    while width is not None and sum(widths[n] + GAP for n in kept) - GAP > width:
        least = max(kept, key=lambda n: columns[n].rank)
        if columns[least].rank == 0:
            break
        kept.remove(least)

    def joined(texts: Sequence[str]) -> str:
        return (" " * GAP).join(padded(texts[n], widths[n], right=columns[n].right) for n in kept).rstrip()

    titles = Line(joined([column.title for column in columns]), "muted")
    return [titles, *(Line(joined(texts), style(row)) for texts, row in zip(cells, rows, strict=True))]


def padded(text: str, width: int, *, right: bool) -> str:
    """Return the text padded to `width` cells; `right`: aligned to the right."""
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


# --------------------------------------------------------------------------- collectives


def check_text(row: CollectiveResult) -> str:
    """Return whether the result was correct: `ok`, `WRONG`, `FAILED`, or a dash if it was not checked."""
    if row.error:
        return "FAILED"
    return {True: "ok", False: "WRONG", None: UNKNOWN}[row.correct]


COLLECTIVE_COLUMNS: tuple[TableColumn[CollectiveResult], ...] = (
    TableColumn("collective", lambda row: row.op, right=False),
    TableColumn("size", lambda row: size_text(row.bytes)),
    TableColumn("p50", lambda row: time_text(row.p50_s)),
    TableColumn("min", lambda row: time_text(row.min_s), 3),
    TableColumn("p99", lambda row: time_text(row.p99_s), 1),
    TableColumn("cv", lambda row: share_text(row.cv), 2),
    TableColumn("algbw", lambda row: rate_text(row.algbw_gb_per_s)),
    TableColumn("busbw", lambda row: rate_text(row.busbw_gb_per_s)),
    TableColumn("NIC", lambda row: rate_text(row.nic_gb_per_s)),
    TableColumn("check", check_text, right=False),
)


def collective_lines(results: Results, width: int | None) -> list[Line]:
    """Return the lines of the table of collectives, then of remarks on its rows."""
    rows = results.collectives
    if not rows:
        return []
    lines = table_lines(COLLECTIVE_COLUMNS, rows, width, collective_style)
    lines.append(
        Line("rates in GB/s (10^9 B/s) as nccl-tests counts; NIC: what one rank's NIC carried", "muted")
    )
    return lines + collective_remarks(results)


def collective_style(row: CollectiveResult) -> Style:
    """Return the style of a row: `critical` for a wrong result or a failure."""
    return "critical" if row.error or row.correct is False else "plain"


def collective_remarks(results: Results) -> list[Line]:
    """Return lines with the errors of collectives, and with the ranks that others waited for."""
    slots = slots_by_rank(results)
    lines: list[Line] = []
    for row in results.collectives:
        what = f"{row.op} {size_text(row.bytes)}"
        if row.error:
            lines.append(Line(plain(f"{what}: {row.error}"), "critical"))
        elif row.correct is False:
            lines.append(Line(f"{what}: wrong result: data were corrupted in transit", "critical"))
        if row.least_waiting is not None:
            who = rank_name(row.least_waiting, slots)
            lines.append(Line(plain(f"{what}: {who} waited least; the others waited for it"), "warning"))
    return lines


# --------------------------------------------------------------------------- GPUs


def gpu_lines(results: Results, width: int | None) -> list[Line]:
    """Return lines with the tests of every GPU; if there are many GPUs, the median and the slowest."""
    rows = [results.gpus[rank] for rank in sorted(results.gpus)]
    if not rows:
        return []
    slots = slots_by_rank(results)
    middle = middle_of(rows)
    columns: tuple[TableColumn[GpuResult], ...] = (
        TableColumn("GPU", lambda row: rank_name(row.rank, slots), right=False),
        TableColumn("matmul TFLOP/s", lambda row: _tera(row.matmul_flops)),
        TableColumn("copy GB/s", lambda row: rate_text(gb_per_s(row.copy_bps))),
        TableColumn("H2D GB/s", lambda row: rate_text(gb_per_s(row.h2d_bps))),
        TableColumn("D2H GB/s", lambda row: rate_text(gb_per_s(row.d2h_bps))),
        TableColumn("to median", lambda row: share_text(worst_ratio(row, middle)), 1),
    )
    folded = len(rows) > MAX_TABLE_GPUS
    shown = sorted(rows, key=lambda row: _or_one(worst_ratio(row, middle)))[:SHOWN_SLOW] if folded else rows
    lines = table_lines(columns, shown, width, lambda _row: "plain")
    if folded:
        text = (
            f"the slowest {len(shown)} of {len(rows)} GPUs; median: {_tera(middle.matmul_flops)} TFLOP/s, "
            f"copy {rate_text(gb_per_s(middle.copy_bps))}, H2D {rate_text(gb_per_s(middle.h2d_bps))}, "
            f"D2H {rate_text(gb_per_s(middle.d2h_bps))} GB/s"
        )
        lines.append(Line(text, "muted"))
    return lines


def _tera(flops: float | None) -> str:
    return rate_text(None if flops is None else flops / 1e12)


def _or_one(ratio: float | None) -> float:
    return 1.0 if ratio is None else ratio


def values_of(row: GpuResult) -> tuple[float | None, ...]:
    """Return the rates of a result: matmul (FLOP/s), copies on the GPU, to it and from it (bytes/s).

    None: not measured.
    """
    return row.matmul_flops, row.copy_bps, row.h2d_bps, row.d2h_bps


def middle_of(rows: Sequence[GpuResult]) -> GpuResult:
    """Return the median of each value over the GPUs that have it."""
    known = [
        [value for value in values if value is not None] for values in zip(*map(values_of, rows), strict=True)
    ]
    matmul, copy, h2d, d2h = (median(values) if values else None for values in known)
    return GpuResult(-1, matmul, copy, h2d, d2h)


def worst_ratio(row: GpuResult, middle: GpuResult) -> float | None:
    """Return the smallest ratio of a value of `row` to the median in `middle`; None if none is comparable."""
    pairs = zip(values_of(row), values_of(middle), strict=True)
    return min((own / usual for own, usual in pairs if own is not None and usual), default=None)


# --------------------------------------------------------------------------- counters and transports


def counter_lines(results: Results) -> list[Line]:
    """Return a line for each counter or gauge that changed during the probe, at most `SHOWN_COUNTERS`."""
    changed = [each for each in results.counters if each.before != each.after]
    lines = [Line(plain(f"{each.node}: {change_text(each)}")) for each in changed[:SHOWN_COUNTERS]]
    more = len(changed) - SHOWN_COUNTERS
    return [*lines, Line(f"and {more} more (--json lists them)")] if more > 0 else lines


def change_text(change: CounterChange) -> str:
    """Return `ib:mlx5_0/1:symbol_error +12`, `pcie:GPU-1:gen 1 before, 4 under load`."""
    if change.name.startswith("="):
        return f"{change.name[1:]} {change.before:g} before, {change.after:g} under load"
    return f"{change.name} +{scaled_text(change.after - change.before, 1000)}"


def transport_lines(results: Results) -> list[Line]:
    """Return a line per transport, such as `NET/IB: 32 ranks`."""
    return [
        Line(plain(f"{name}: {counted(len(ranks), 'rank')}"))
        for name, ranks in sorted(results.transports.items())
    ]
