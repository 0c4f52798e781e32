"""Reads a session from its ranks' logs, of any framework, by the rule packs."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence
from pathlib import Path

from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.result import LogScan, Scan
from gpuwatch.runs.scan.scan import scan
from gpuwatch.runs.sessions.folders.process_logs import add_warning, profile_of
from gpuwatch.runs.sessions.folders.session_folder import complete_losses, complete_rates
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import (
    EvaluationResults,
    SessionProfile,
    SessionRank,
    SessionSummary,
    SessionWarning,
)
from gpuwatch.runs.sessions.sources.evaluation_lines import evaluations_of
from gpuwatch.runs.steps.step_series import StepPoint, StepSeries
from gpuwatch.telemetry.session.summary import OF_A_PEER
from gpuwatch.whole_file import read_bounded

SOURCE = "rank logs"
NO_STEPS = "no line of the logs reports a step of training"
MAX_EXAMPLE_CHARS, MAX_ERROR_CHARS = 500, 2_000
MAX_PROFILED_LOGS, MAX_PROFILED_BYTES = 16, 4 << 20
"""Most logs, and bytes of each, in which a profiled step is searched: the first steps are profiled."""
MAX_STATED_BYTES = 1 << 20
WORLD_SIZE = re.compile(rb"\b[Ww]orld[ _][Ss]ize: (\d{1,6})\b")
"""Matches the world size as the telemetry library logs it."""
EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,200}(?:Error|Exception|Interrupt|Failure|Exit)\b")
"""Matches the last line of a traceback, at the beginning of a message."""
QUANTITIES = (
    ("loss", "loss"),
    ("grad_norm", "grad_norm"),
    ("tokens_per_s", "tokens_per_s"),
    ("samples_per_s", "samples_per_s"),
    ("lr", "learning_rate"),
)
"""Field of a step -> curve."""


def read_rank_logs(paths: Sequence[Path], folder: Path) -> TrainingSession:
    """Return the logs as one session, named after `folder`."""
    packs = load_packs(())
    result = scan(gather(list(paths), packs.column_words), packs.all, cores=1)
    session = TrainingSession(folder, SOURCE, SessionSummary(id=folder.name))
    session.problems += [f"{file.name}: {file.trouble}" for file in result.files if file.trouble]
    series = leading_series(result.files)
    if not series:
        session.problems.append(NO_STEPS)
    step_times: list[float] = []
    for log, one in series:
        writer = writer_name(log, one, alone=len(series) == 1)
        step_times += add_curves(session, one, writer)
    summary = session.summary
    take_steps(summary, [one for _, one in series])
    take_ranks(summary, result, folder)
    take_warnings(summary, result)
    summary.error = first_exception(result)
    summary.profile = newest_profile([log.path for log in result.files])
    take_evaluations(session, evaluations_of(result.files))
    complete_rates(summary, step_times)
    complete_losses(session)
    return session


def leading_series(files: Sequence[LogScan]) -> list[tuple[LogScan, StepSeries]]:
    """Return each writer's series with the most training steps, with its file; empty series are left out."""
    best: dict[tuple[int | None, int | None, str], tuple[LogScan, StepSeries]] = {}
    for log in files:
        for one in log.series:
            if not one.points:
                continue
            rank = one.rank if one.rank is not None else log.rank
            key = (rank, one.local_rank, log.node or "" if rank is None else "")
            known = best.get(key)
            if known is None or len(one.points) > len(known[1].points):
                best[key] = (log, one)
    return list(best.values())


def writer_name(log: LogScan, one: StepSeries, *, alone: bool) -> str:
    """Return `rank 3`; the file name if the rank is unknown; empty if the writer is `alone`."""
    rank = one.rank if one.rank is not None else log.rank
    if alone:
        return ""
    return f"rank {rank}" if rank is not None else log.name


def add_curves(session: TrainingSession, one: StepSeries, writer: str) -> list[float]:
    """Add the points of a series; return the step times (seconds), logged or from timestamps."""
    times: list[float] = []
    before: StepPoint | None = None
    for point in one.points:
        for field, curve in QUANTITIES:
            session.curves.add(curve, point.step, point.at, getattr(point, field), writer)
        took = point.step_time_s or step_time(before, point)
        if took:
            times.append(took)
            session.curves.add("steps_per_s", point.step, point.at, 1 / took, writer)
        before = point
    return times


def step_time(before: StepPoint | None, point: StepPoint) -> float | None:
    """Return the seconds per step between two timed points; None if they do not advance."""
    if before is None or before.at is None or point.at is None or point.step <= before.step:
        return None
    return (point.at - before.at) / (point.step - before.step) if point.at > before.at else None


def take_steps(summary: SessionSummary, series: Sequence[StepSeries]) -> None:
    """Set first and last time, planned steps, the highest step, and samples per second.

    The highest step is also the number of steps; both stay unset if all series count per epoch. Samples per
    second are set if exactly one series has them.
    """
    points = [point for one in series for point in one.points]
    times = [point.at for point in points if point.at is not None]
    summary.start, summary.end = min(times, default=None), max(times, default=None)
    if points and not all(one.per_epoch for one in series):
        summary.last_step = max(point.step for point in points)
        summary.steps = summary.last_step
    summary.total_steps = max((one.total_steps for one in series if one.total_steps), default=None)
    rates = [one.values["samples_per_s"] for one in series if "samples_per_s" in one.values]
    summary.samples_per_s = rates[0] if len(rates) == 1 else None


def take_ranks(summary: SessionSummary, result: Scan, folder: Path) -> None:
    """Set the ranks that the files belong to, and the world size."""
    found: dict[int, SessionRank] = {}
    for log in result.files:
        ranks = {one.rank for one in log.series if one.rank is not None} | ({log.rank} - {None})
        for rank in ranks:
            if rank is not None and rank not in found:
                name = str(log.path.relative_to(folder)) if log.path.is_relative_to(folder) else str(log.path)
                found[rank] = SessionRank(rank=rank, node=log.node, log=name)
    if found:
        summary.ranks = [found[rank] for rank in sorted(found)]
    stated = stated_world_size([log.path for log in result.files])
    if stated or any(found):  # rank 0 alone often logs for all
        summary.world_size = max(stated, *(rank + 1 for rank in found), 0)


def stated_world_size(paths: Sequence[Path]) -> int:
    """Return the largest world size that the beginning of one of the first logs states; 0: none does."""
    found = [0]
    for path in paths[:MAX_PROFILED_LOGS]:
        with contextlib.suppress(OSError):
            found += map(int, WORLD_SIZE.findall(read_bounded(path, MAX_STATED_BYTES)))
    return max(found)


def first_exception(result: Scan) -> str | None:
    """Return the line of the earliest exception that is not about a peer, else of the earliest; or None."""
    found: list[tuple[bool, float, str]] = []
    for located in result.located:
        finding = located.finding
        if finding.severity not in {"error", "critical"}:
            continue
        line = finding.key_line
        parts = messages(line.encode())[0]
        text = parts[-1][0].strip() if parts else line
        if EXCEPTION.match(text):
            is_of_peer = finding.role == "echo" or bool(OF_A_PEER.search(text))
            found.append((is_of_peer, finding.at if finding.timed else math.inf, text[:MAX_ERROR_CHARS]))
    return min(found, key=lambda each: each[:2])[2] if found else None


def newest_profile(paths: Sequence[Path]) -> SessionProfile | None:
    """Return the profiled step of the highest number near the beginning of the first logs.

    None: no log has one.
    """
    found: list[SessionProfile] = []
    for path in paths[:MAX_PROFILED_LOGS]:
        with contextlib.suppress(OSError):
            lines = read_bounded(path, MAX_PROFILED_BYTES).split(b"\n")
            texts = (line.decode(errors="replace") for line in lines if b"Profiler | step" in line)
            found += [profile for profile in map(profile_of, texts) if profile is not None][-1:]
    return max(found, key=lambda profile: profile.step or 0, default=None)


def take_evaluations(session: TrainingSession, evaluations: list[EvaluationResults]) -> None:
    """Set the results of the evaluations, and their loss as a curve."""
    if evaluations:
        session.summary.evaluations = evaluations
        session.summary.evaluation = dict(evaluations[-1].results)
    for each in evaluations:
        session.curves.add("eval_loss", each.step, None, each.results.get("eval_loss"))


def take_warnings(summary: SessionSummary, result: Scan) -> None:
    """Add the findings of the rules, counted by class, without those of severity info: signs of progress."""
    warnings: dict[str, SessionWarning] = {}
    for located in result.located:
        finding = located.finding
        if finding.severity == "info":
            continue
        add_warning(
            warnings,
            SessionWarning(
                class_id=finding.rule,
                severity=finding.severity,
                count=finding.count,
                example=finding.key_line[:MAX_EXAMPLE_CHARS] or None,
                rank=finding.rank,
            ),
        )
    if warnings:
        summary.warnings = list(warnings.values())
