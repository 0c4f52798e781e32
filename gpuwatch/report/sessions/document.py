"""A report of sessions as blocks: figures, tables and plots."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from gpuwatch import __version__
from gpuwatch.blocks.model import PAIRS, Block, Heading, Item, Line, Table
from gpuwatch.report.sessions.charts import OF_JOB, PER_WRITER, charts_of
from gpuwatch.report.sessions.communication import VERDICTS, megabytes
from gpuwatch.report.sessions.comparison import rate_of_steps
from gpuwatch.report.sessions.details import known, run_rows, training_rows
from gpuwatch.report.sessions.numbers import (
    DASH,
    duration,
    fixed,
    loss_cell,
    moment,
    percent,
    rate,
    significant,
    size,
    whole,
)
from gpuwatch.runs.comparison.communication import CommunicationReport, communication_report
from gpuwatch.runs.comparison.compare import SessionComparison, compare, mode_of, steps_per_s
from gpuwatch.runs.comparison.configuration import flat_rows
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import SessionSummary

SIGNS = {"for": "yes", "against": "no", "unknown": "?"}
"""The sign of a reason -> the text of its table cell."""
MAX_ROWS = 1_000


def build_document(sessions: Sequence[TrainingSession], now: float | None = None) -> list[Block]:
    """Return the report of these sessions. `now`: unix seconds; None: the current time."""
    found = compare(sessions)
    about = sessions[0].name if len(sessions) == 1 else f"{len(sessions)} sessions"
    made = f"gpuwatch {__version__}, {moment(time.time() if now is None else now)}"
    blocks: list[Block] = [Heading(f"Training report: {about}", 1), Line(made, "muted")]
    blocks += [Heading("Sessions", 2), overview(found)]
    if len(sessions) > 1:
        blocks += [Heading("Single GPU vs multi-GPU", 2), *comparison_blocks(found)]
    if curves := charts_of(sessions, OF_JOB):
        blocks += [Heading("Curves", 2), *curves]
    for session in sessions:
        blocks += session_blocks(communication_report(session, sessions))
    return blocks


def overview(found: SessionComparison) -> Table:
    """Return a table with one row per session."""
    rows = []
    for each in found.sessions:
        one = each.summary
        rows.append(
            (
                each.name,
                mode_of(one) or DASH,
                whole(one.gpu_count),
                duration(one.duration_s),
                whole(one.steps),
                rate_of_steps(steps_per_s(one)),
                loss_cell(one),
                one.status or DASH,
            )
        )
    columns = ("Session", "Mode", "GPUs", "Duration", "Steps", "Steps/sec", "Final loss", "Status")
    return Table(columns, tuple(rows))


def configuration_table(found: SessionComparison) -> Table:
    """Return a table of the settings in which the sessions differ, with a column for each session."""
    names = [each.name for each in found.sessions]
    rows = [(each.what, *(each.values.get(name, DASH) for name in names)) for each in found.configuration]
    return Table(("Setting", *names), tuple(rows), "Configuration differences")


def comparison_blocks(found: SessionComparison) -> Iterator[Block]:
    """Yield blocks with the differences in settings, and the speed-up by GPU count."""
    for each in found.differences:
        values = "; ".join(f"{session}: {value}" for session, value in each.values.items())
        yield Item(f"Not alike: {each.what.replace('_', ' ')} ({values})", sign="warning")
    if found.speedup is not None:
        yield Item(f"Multi-GPU Speedup: {found.speedup:.2f}x", style="strong")
        yield Item(f"GPU Efficiency: {percent(found.efficiency)}", style="strong")
    rows = tuple(
        (
            str(point.workers),
            str(len(point.group.sessions)),
            rate_of_steps(point.group.steps_per_s),
            fixed(point.group.samples_per_s, 2),
            fixed(point.group.utilization_avg_pct, 1, "%"),
            fixed(point.speedup, 2, "x"),
            percent(point.efficiency),
        )
        for point in found.scaling
    )
    columns = ("GPUs", "Sessions", "Steps/sec", "Samples/sec", "GPU utilization", "Speedup", "Efficiency")
    if rows:
        yield Table(columns, rows)
    if found.configuration:
        yield configuration_table(found)


def session_blocks(report: CommunicationReport) -> Iterator[Block]:
    """Yield the blocks of the report about one session."""
    session = report.session
    yield Heading(session.name, 2)
    yield from (Item(problem, sign="warning") for problem in session.problems)
    yield from (table for table in session_tables(report) if table.rows)
    yield from charts_of([session], PER_WRITER)


def session_tables(report: CommunicationReport) -> Iterator[Table]:
    """Yield the tables of one session, including empty ones."""
    one = report.session.summary
    evaluation = [(name, significant(value, 6)) for name, value in (one.evaluation or {}).items()]
    yield pairs("Run", known(run_rows(one)))
    yield pairs("Training", known(training_rows(one)))
    yield pairs("Evaluation", evaluation)
    yield _gpu_table(one)
    yield _operation_table(report)
    yield Table(
        ("Sign", "Reason"),
        tuple((SIGNS[reason.sign], reason.text) for reason in report.reasons),
        f"Verdict: {VERDICTS[report.verdict][0]}",
    )
    yield Table(
        ("Class", "Severity", "Count", "Example"),
        tuple(
            (each.class_id, each.severity or DASH, str(each.count), each.example or DASH)
            for each in one.warnings or ()
        ),
        "Warnings",
    )
    yield _rank_table(one)
    yield pairs("Configuration", flat_rows(one.configuration or {}), folded=True)
    yield pairs("Environment", sorted((one.environment or {}).items()), folded=True)
    yield pairs("Packages", sorted((one.packages or {}).items()), folded=True)


def _gpu_table(one: SessionSummary) -> Table:
    return Table(
        ("GPU", "Model", "Avg utilization", "Peak", "Avg memory", "Avg power", "Max temperature"),
        tuple(
            (
                f"{gpu.node + ' ' if gpu.node else ''}{whole(gpu.index)}",
                gpu.name or DASH,
                fixed(gpu.utilization_avg_pct, 1, "%"),
                fixed(gpu.utilization_peak_pct, 1, "%"),
                fixed(gpu.memory_avg_pct, 1, "%"),
                fixed(gpu.power_avg_w, 0, " W"),
                fixed(gpu.temperature_max_c, 0, " °C"),
            )
            for gpu in one.gpus or ()
        ),
        "GPUs",
    )


def _operation_table(report: CommunicationReport) -> Table:
    return Table(
        (
            "Operation",
            "Occurrences",
            "Avg size",
            "Total size",
            "Total time",
            "Avg bandwidth",
            "Share of step time",
        ),
        tuple(
            (
                each.operation,
                str(each.count),
                megabytes(each.bytes_avg),
                megabytes(each.bytes_total),
                fixed(each.time_total_s, 3, " s"),
                rate(each.bandwidth_avg_bps),
                percent(share),
            )
            for each, share in zip(report.operations, report.shares, strict=True)
        ),
        "Communication",
    )


def _rank_table(one: SessionSummary) -> Table:
    return Table(
        ("Rank", "Node", "GPU", "Steps", "Mean step time", "Peak memory", "Log"),
        tuple(
            (
                whole(each.rank),
                each.node or DASH,
                whole(each.gpu_index),
                whole(each.steps),
                fixed(each.step_time_mean_s, 3, " s"),
                size(each.peak_memory_bytes),
                each.log or DASH,
            )
            for each in (one.ranks or ())[:MAX_ROWS]
        ),
        "Ranks",
    )


def pairs(title: str, rows: Sequence[tuple[str, str]], *, folded: bool = False) -> Table:
    """Return a table of names and values, at most `MAX_ROWS`. `folded`: it is long and less important."""
    return Table(PAIRS, tuple(rows[:MAX_ROWS]), title, folded)
