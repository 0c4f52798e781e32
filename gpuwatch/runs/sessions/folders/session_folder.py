"""Reads a session folder: its summary, with missing values filled in from its logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from gpuwatch.runs.sessions.folders.json_object import MAX_JSON_BYTES, decoded_object
from gpuwatch.runs.sessions.folders.main_log import MainLog, read_main_log
from gpuwatch.runs.sessions.folders.parts import joined_facts
from gpuwatch.runs.sessions.folders.process_logs import ProcessLogs, read_process_logs
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import (
    MAX_NUMBER,
    VERSION,
    SessionBatch,
    SessionSummary,
    StepTimeStatistics,
    read_struct,
)
from gpuwatch.whole_file import read_bounded
from gpuwatch.whole_number import whole_number

MAX_TIME = 1e11
"""Largest time in unix seconds (year 5138) that is accepted."""
SOURCE = "session folder"
LOG_KINDS = ("multigpu", "performance")


def session_id(folder: Path) -> str | None:
    """Return the id in the folder's file names; None: not a session folder, or not readable.

    A renamed folder keeps the id of its files. If node rank 0 has written nothing, a folder has parts only,
    and the id of its own name counts.
    """
    try:
        names = sorted(each.name for each in folder.iterdir())
    except OSError:
        return None
    for end in ("_summary.json", "_main.log", "_multigpu.log", "_performance.log"):
        for name in names:
            if name.startswith("training_") and name.endswith(end):
                return name.removesuffix(end)
    is_part = folder.name.startswith("training_") and "parts" in names and any(folder.glob("parts/*.json"))
    return folder.name if is_part else None


def read_session_folder(folder: Path, session: str) -> TrainingSession:
    """Return the session in the folder; missing parts are listed in its `problems`."""
    problems: list[str] = []
    summary = read_summary(folder / f"{session}_summary.json", problems)
    if summary.id not in (None, session):
        problems.append(f"the summary states another id: {summary.id}")
    summary.id = session
    is_lost = summary.has_non_finite_loss
    refuse_contradiction(summary, problems)
    main_path = folder / f"{session}_main.log"
    main = read_main_log(main_path, session, problems) if main_path.is_file() else MainLog()
    paths = {kind: folder / f"{session}_{kind}.log" for kind in LOG_KINDS}
    there = {kind: path for kind, path in paths.items() if path.is_file()}
    absent = [path.name for path in (main_path, *paths.values()) if not path.is_file()]
    if absent:
        problems.append(f"log files missing from the session folder: {', '.join(absent)}")
    logs = read_process_logs(there, problems)
    found = TrainingSession(folder, SOURCE, summary, main.curves, problems)
    found.curves.absorb(logs.curves)
    complete(summary, main, logs)
    complete_losses(found)
    if is_lost:  # the last finite loss of a log is not the final one
        summary.final_loss = None
    return found


def refuse_contradiction(summary: SessionSummary, problems: list[str]) -> None:
    """Set the status `failed` in a summary that has `completed` but also an exit code or signal.

    Add that to `problems`.
    """
    if summary.status == "completed" and (summary.exit_code or summary.exit_signal):
        how = summary.exit_signal or f"exit code {summary.exit_code}"
        problems.append(f"the summary states the status `completed`, but also {how}")
        summary.status = "failed"


def read_summary(path: Path, problems: list[str]) -> SessionSummary:
    """Return the summary; an empty one, with a problem, if it is missing or broken."""
    try:
        raw = read_bounded(path, MAX_JSON_BYTES + 1)
    except FileNotFoundError:
        problems.append(f"missing: {path.name}; figures are taken from the logs")
        raw = b"{}"
    except OSError as error:
        problems.append(f"{path.name}: {error.strerror}; figures are taken from the logs")
        raw = b"{}"
    facts = decoded_object(raw, path.name, problems)
    version = facts.get("version")
    if isinstance(version, int) and version > VERSION:
        problems.append(f"{path.name}: version {version}; this gpuwatch knows version {VERSION}")
    summary = read_struct(
        SessionSummary, joined_facts(facts, path.parent, problems), f"{path.name}: ", problems
    )
    if summary.duration_s is not None and summary.duration_s <= 0:
        summary.duration_s = None
    for name in ("start", "end"):
        time = getattr(summary, name)
        if time is not None and not 0 <= time < MAX_TIME:
            setattr(summary, name, None)
    return summary


def complete(summary: SessionSummary, main: MainLog, logs: ProcessLogs) -> None:
    """Fill in missing values of the summary from the logs; existing values stay."""
    _take_unknown(summary, main.summary)
    if not summary.communication:
        summary.communication = logs.communication() or summary.communication
    _take_gpus(summary, logs)
    if summary.warnings is None and logs.warnings:
        summary.warnings = list(logs.warnings.values())
    if summary.profile is None or summary.profile.step is None:
        summary.profile = logs.profile
    facts = logs.facts
    summary.backend = summary.backend or facts.get("Distributed backend")
    if summary.world_size is None:
        summary.world_size = whole_number(facts.get("World size", ""))
    if logs.batch_size is not None:
        summary.batch = summary.batch or SessionBatch()
        if summary.batch.global_size is None:
            summary.batch.global_size = logs.batch_size
    if summary.last_step is None:
        summary.last_step = logs.last_step
    _complete_times(summary, main, logs)
    if summary.mode is None and summary.workers is not None:
        summary.mode = "multi" if max(summary.world_size or 0, summary.gpu_count or 0) > 1 else "single"
    if summary.gpu_count is None and summary.gpus:
        summary.gpu_count = len(summary.gpus)


def _take_unknown(summary: SessionSummary, other: SessionSummary) -> None:
    for each in msgspec.structs.fields(SessionSummary):
        if getattr(summary, each.name) is None:
            setattr(summary, each.name, getattr(other, each.name))


def _take_gpus(summary: SessionSummary, logs: ProcessLogs) -> None:
    """Fill in GPU figures from the samples of the performance log, joined by node and index."""
    sampled = logs.gpus()
    if not summary.gpus:
        summary.gpus = sampled or summary.gpus
        return
    known = {(each.node, each.index): each for each in sampled} | {
        (None, each.index): each for each in sampled if len(sampled) == len({one.index for one in sampled})
    }
    for gpu in summary.gpus:
        other = known.get((gpu.node, gpu.index)) or known.get((None, gpu.index))
        for name in gpu.__struct_fields__ if other else ():
            if getattr(gpu, name) is None:
                setattr(gpu, name, getattr(other, name))


def _complete_times(summary: SessionSummary, main: MainLog, logs: ProcessLogs) -> None:
    begins = [time for time in (main.begin, logs.begin) if time is not None]
    ends = [time for time in (main.end, logs.end) if time is not None]
    if summary.start is None:
        summary.start = min(begins, default=None)
    if summary.end is None:
        summary.end = max(ends, default=None)
    complete_rates(summary, main.step_times or logs.step_times)


def complete_rates(summary: SessionSummary, step_times: Sequence[float]) -> None:
    """Derive missing duration, steps and rates from each other, and statistics from step times (seconds)."""
    if summary.duration_s is None and summary.start is not None and summary.end is not None:
        summary.duration_s = max(0.0, summary.end - summary.start) or None
    if summary.steps is None:
        summary.steps = summary.last_step
    if summary.steps_per_s is None and summary.steps and summary.duration_s:
        summary.steps_per_s = summary.steps / summary.duration_s
    if summary.step_time_s is None and step_times:
        summary.step_time_s = step_time_statistics(step_times)
    if summary.step_time_s is not None and summary.step_time_s.p50:
        summary.steady_steps_per_s = summary.step_time_s.steady_steps_per_s


def complete_losses(session: TrainingSession) -> None:
    """Fill in final, mean and best values of the summary from the curves, where it has none.

    If the loss ends as NaN or Inf, it sets that step, and no final loss.
    """
    summary = session.summary
    logged = [
        each for each in session.curves.by_name.get("loss", {}).values() if each.seen or not each.is_finite
    ]
    if (
        logged
        and not logged[0].is_finite
        and summary.final_loss is None
        and summary.non_finite_loss_step is None
    ):
        summary.non_finite_loss_step = logged[0].non_finite_step
    is_lost = summary.non_finite_loss_step is not None or (bool(logged) and not logged[0].is_finite)
    for name, field in (
        ("loss", "final_loss"),
        ("learning_rate", "final_learning_rate"),
        ("grad_norm", "final_grad_norm"),
    ):
        curves = session.curves.named(name)
        if getattr(summary, field) is None and curves and not (name == "loss" and is_lost):
            setattr(summary, field, curves[0].points[-1].value)
    for name in ("samples_per_s", "tokens_per_s"):
        if getattr(summary, name) is None:
            setattr(summary, name, _mean_of(session, name))
    losses = [point.value for curve in session.curves.named("loss") for point in curve.points]
    if summary.best_loss is None and losses:
        summary.best_loss = min(losses)


def _mean_of(session: TrainingSession, name: str) -> float | None:
    """Return the mean of the job-wide curve of a metric; None without points."""
    values = [point.value for curve in session.curves.named(name)[:1] for point in curve.points]
    return float(np.mean(values)) if values else None


def step_time_statistics(times: Sequence[float]) -> StepTimeStatistics | None:
    """Return the statistics of the step times (seconds) between 0 and `MAX_NUMBER`; None without any."""
    finite = [time for time in times if 0 < time < MAX_NUMBER]
    if not finite:
        return None
    p50, p95, p99 = (float(value) for value in np.percentile(finite, [50, 95, 99]))
    return StepTimeStatistics(
        count=len(finite),
        mean=float(np.mean(finite)),
        std_dev=float(np.std(finite)),
        min=min(finite),
        p50=p50,
        p95=p95,
        p99=p99,
        max=max(finite),
    )
