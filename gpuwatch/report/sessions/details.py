"""One session in full: what `gpuwatch runs show` prints, and its JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gpuwatch.blocks.model import Line
from gpuwatch.report.sessions.comparison import gpu_line, session_facts, session_lines
from gpuwatch.report.sessions.numbers import fixed, moment, percent, significant, whole
from gpuwatch.runs.comparison.configuration import flat_rows
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import SessionProfile, SessionSummary

MAX_ROWS = 40
"""Maximum number of list entries in the text; the JSON contains all."""


def detail_lines(session: TrainingSession) -> Iterator[Line]:
    """Yield lines with all details of a session, section by section; long sections are cut."""
    one = session.summary
    yield from session_lines(session)
    for title, rows in sections(one):
        if not rows:
            continue
        yield Line("")
        yield Line(f"  {title}:")
        width = max(len(name) for name, _ in rows)
        for name, value in rows[:MAX_ROWS]:
            yield Line(f"    {name:<{width}}  {value}", hang=width + 6)
        if len(rows) > MAX_ROWS:
            yield Line(f"    {len(rows) - MAX_ROWS} more; --json prints all", "muted")


Rows = list[tuple[str, str]]


def sections(one: SessionSummary) -> Iterator[tuple[str, Rows]]:
    """Yield title and rows of each section; unknown rows are left out."""
    yield "Run", known(run_rows(one))
    yield "Training", known(training_rows(one))
    yield "Evaluation", [(name, significant(value, 6)) for name, value in (one.evaluation or {}).items()]
    yield "GPUs", [gpu_row(gpu_line(gpu)) for gpu in one.gpus or ()]
    yield (
        "Communication",
        [(each.operation, f"{each.count} occurrences") for each in one.communication or ()],
    )
    yield (
        "Ranks",
        [
            (
                f"rank {each.rank}",
                f"{each.node or '-'} GPU {whole(each.gpu_index)}, {whole(each.steps)} steps",
            )
            for each in one.ranks or ()
        ],
    )
    yield (
        "Warnings",
        [
            (each.class_id, f"{each.count} x, {each.severity or '-'}: {each.example or '-'}")
            for each in one.warnings or ()
        ],
    )
    yield "Configuration", flat_rows(one.configuration or {})
    yield "Environment", sorted((one.environment or {}).items())
    yield "Packages", sorted((one.packages or {}).items())
    yield "System", known(flat_rows(msgspec.to_builtins(one.system) if one.system else {}))


def run_rows(one: SessionSummary) -> Rows:
    """Return rows about the run; unknown values are empty."""
    return [
        ("status", one.status or ""),
        ("exit code", "" if one.exit_code is None else str(one.exit_code)),
        ("signal", one.exit_signal or ""),
        ("error", one.error or ""),
        ("run id", one.run_id or ""),
        ("name", one.name or ""),
        ("command", " ".join(one.command or ())),
        ("started", moment(one.start) if one.start else ""),
        ("ended", moment(one.end) if one.end else ""),
        ("mode", one.mode or ""),
        ("world size", "" if one.world_size is None else str(one.world_size)),
        ("backend", one.backend or ""),
        ("precision", one.mixed_precision or ""),
        ("written by", one.writer or ""),
    ]


def training_rows(one: SessionSummary) -> Rows:
    """Return rows about model, data and speed; unknown values are empty."""
    model, batch, times = one.model, one.batch, one.step_time_s
    return [
        ("model", (model and model.name) or ""),
        ("parameters", f"{model.parameters:,}" if model and model.parameters else ""),
        ("global batch size", str(batch.global_size) if batch and batch.global_size else ""),
        ("last step", steps_text(one)),
        ("samples/s", text(one.samples_per_s)),
        ("tokens/s", text(one.tokens_per_s)),
        (
            "step time p50, p95, p99",
            f"{fixed(times.p50, 3, 's')}, {fixed(times.p95, 3, 's')}, {fixed(times.p99, 3, 's')}"
            if times and times.p50 is not None
            else "",
        ),
        ("MFU, step", percent(one.mfu_step) if one.mfu_step is not None else ""),
        ("MFU, overall", percent(one.mfu_overall) if one.mfu_overall is not None else ""),
        ("profiled step", profile_text(one.profile)),
        ("best loss", text(one.best_loss)),
        ("learning rate, last", text(one.final_learning_rate)),
        ("gradient norm, last", text(one.final_grad_norm)),
    ]


def steps_text(one: SessionSummary) -> str:
    """Return the steps as text: `50/1000`, or `50` if the total is unknown; "" if no step is known."""
    if one.last_step is None:
        return ""
    return f"{one.last_step}/{one.total_steps}" if one.total_steps else str(one.last_step)


def profile_text(profile: SessionProfile | None) -> str:
    """Return the parts of the newest profiled step as text; "" without a profile."""
    if profile is None or profile.step is None:
        return ""
    parts = {
        "computation": profile.computation_ms,
        "communication": profile.communication_ms,
        "other": profile.other_ms,
    }
    total = sum(value or 0.0 for value in parts.values())
    listed = ", ".join(
        f"{name} {fixed(value, 3, 'ms')} ({percent(value / total if value is not None and total else None)})"
        for name, value in parts.items()
    )
    return f"{profile.step}: {listed}"


def text(value: float | None) -> str:
    """Return a number as text with five significant digits; "" if unknown."""
    return "" if value is None else significant(value, 5)


def known(rows: Rows) -> Rows:
    """Return the rows that have a value."""
    return [(name, value) for name, value in rows if value]


def gpu_row(line: str) -> tuple[str, str]:
    """Return (name, value) of a line made by `gpu_line`: the text before and after its first colon."""
    name, _, value = line.partition(": ")
    return name, value


def detail_facts(session: TrainingSession) -> dict[str, Any]:
    """Return a session in the JSON of `gpuwatch runs show --json`: its summary, source and curves."""
    facts: dict[str, Any] = msgspec.to_builtins(session.summary)
    listed = session_facts(session)
    return facts | {
        "id": listed["id"],
        "mode": listed["mode"],
        "steps_per_s": listed["steps_per_s"],
        "path": listed["path"],
        "source": session.source,
        "curves": [
            {"name": name, "points": sum(len(curve.points) for curve in curves)}
            for name, curves in session.curves.each()
        ],
        "problems": session.problems,
    }
