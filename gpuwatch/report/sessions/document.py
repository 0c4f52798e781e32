"""A report of sessions as sections, tables and charts, independent of the output format."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from gpuwatch import __version__
from gpuwatch.report.sessions.charts import OF_JOB, PER_WRITER, Chart, charts_of
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
"""Sign of a reason -> its cell."""
MAX_ROWS = 1_000


class ReportTable(Struct, frozen=True):
    """A table with headings; `folded` tables are long and less important."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    folded: bool = False


@dataclass
class ReportSection:
    """A section of the report; its notes are problems and gaps."""

    title: str
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: list[ReportTable] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)


class SessionDocument(Struct, frozen=True):
    """The whole report."""

    title: str
    made: str
    sections: tuple[ReportSection, ...]


def build_document(sessions: Sequence[TrainingSession], now: float | None = None) -> SessionDocument:
    """Return the report of these sessions. `now`: unix seconds; None: the current time."""
    found = compare(sessions)
    reports = [communication_report(each, sessions) for each in sessions]
    sections = [overview(found)]
    if len(sessions) > 1:
        sections.append(comparison_section(found))
    curves = ReportSection("Curves", charts=charts_of(sessions, OF_JOB))
    if curves.charts:
        sections.append(curves)
    sections += [session_section(report) for report in reports]
    about = sessions[0].name if len(sessions) == 1 else f"{len(sessions)} sessions"
    made = f"gpuwatch {__version__}, {moment(time.time() if now is None else now)}"
    return SessionDocument(f"Training report: {about}", made, tuple(sections))


def overview(found: SessionComparison) -> ReportSection:
    """Return a section with one row per session."""
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
    return ReportSection("Sessions", tables=[ReportTable(columns, tuple(rows))])


def configuration_table(found: SessionComparison) -> ReportTable:
    """Return the settings in which the sessions differ, a column for each session."""
    names = [each.name for each in found.sessions]
    rows = [(each.what, *(each.values.get(name, DASH) for name in names)) for each in found.configuration]
    return ReportTable(("Setting", *names), tuple(rows), "Configuration differences")


def comparison_section(found: SessionComparison) -> ReportSection:
    """Return a section with differences in settings, and speed-up by GPU count."""
    section = ReportSection("Single GPU vs multi-GPU")
    for each in found.differences:
        values = "; ".join(f"{session}: {value}" for session, value in each.values.items())
        section.notes.append(f"Not alike: {each.what.replace('_', ' ')} ({values})")
    if found.configuration:
        section.tables.append(configuration_table(found))
    if found.speedup is not None:
        section.lines.append(f"Multi-GPU Speedup: {found.speedup:.2f}x")
        section.lines.append(f"GPU Efficiency: {percent(found.efficiency)}")
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
        section.tables.append(ReportTable(columns, rows))
    return section


def session_section(report: CommunicationReport) -> ReportSection:
    """Return a section with everything about one session."""
    session = report.session
    section = ReportSection(session.name, notes=list(session.problems))
    section.tables += [table for table in session_tables(report) if table.rows]
    section.charts += charts_of([session], PER_WRITER)
    return section


def session_tables(report: CommunicationReport) -> Iterator[ReportTable]:
    """Yield the tables of one session, including empty ones."""
    one = report.session.summary
    evaluation = [(name, significant(value, 6)) for name, value in (one.evaluation or {}).items()]
    yield pairs("Run", known(run_rows(one)))
    yield pairs("Training", known(training_rows(one)))
    yield pairs("Evaluation", evaluation)
    yield _gpu_table(one)
    yield _operation_table(report)
    yield ReportTable(
        ("Sign", "Reason"),
        tuple((SIGNS[reason.sign], reason.text) for reason in report.reasons),
        f"Verdict: {VERDICTS[report.verdict][0]}",
    )
    yield ReportTable(
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


def _gpu_table(one: SessionSummary) -> ReportTable:
    return ReportTable(
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


def _operation_table(report: CommunicationReport) -> ReportTable:
    return ReportTable(
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


def _rank_table(one: SessionSummary) -> ReportTable:
    return ReportTable(
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


def pairs(title: str, rows: Sequence[tuple[str, str]], *, folded: bool = False) -> ReportTable:
    """Return a table of names and values, at most `MAX_ROWS`. `folded`: it is long and less important."""
    return ReportTable(("Name", "Value"), tuple(rows[:MAX_ROWS]), title, folded)
