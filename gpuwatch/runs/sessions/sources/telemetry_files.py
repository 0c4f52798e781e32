"""Reads telemetry files of Oumi and `gpuwatch.telemetry`: timers, memory and last metrics by rank."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuwatch.runs.sessions.folders.json_object import MAX_JSON_BYTES, decoded_object
from gpuwatch.runs.sessions.folders.session_folder import complete_losses, complete_rates
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import SessionRank, SessionSummary, StepTimeStatistics, TimerTotals
from gpuwatch.runs.sessions.sources.metric_names import add_metric
from gpuwatch.runs.sessions.sources.trainer_state import number, whole
from gpuwatch.whole_file import read_bounded

SOURCE = "telemetry files"
NAME = re.compile(
    r"telemetry_callback_(?:(?P<metrics>metrics_)?rank(?P<rank>\d{4,7})|(?P<all>all_ranks)|(?P<other>\w+))\.json"
)
RANK_KEY = re.compile(r"rank(\d{4,7})")
STEP_TIMERS = ("steps", "step", "train_step")
"""Names of timers of whole steps; the first one that exists is used."""
MIB = 1 << 20
"""Bytes per MiB, the unit of Oumi's `gpu_memory`."""


def read_telemetry_files(paths: Sequence[Path], folder: Path) -> TrainingSession:
    """Return the files of one output folder as one session; its world size is the highest rank plus one."""
    session = TrainingSession(folder, SOURCE, SessionSummary(id=folder.name))
    ranks: dict[int, SessionRank] = {}
    for path in sorted(paths):
        found = NAME.fullmatch(path.name)
        if found is None or found["other"]:
            continue
        try:
            facts = decoded_object(read_bounded(path, MAX_JSON_BYTES + 1), path.name, session.problems)
        except OSError as error:
            session.problems.append(f"{path.name}: {error.strerror}")
            continue
        if found["all"]:
            for key, summary in facts.items():
                rank = RANK_KEY.fullmatch(key)
                if rank and isinstance(summary, dict):
                    take_summary(session, int(rank[1]), summary, ranks)
        elif found["metrics"]:
            take_metrics(session, facts)
        else:
            take_summary(session, int(found["rank"]), facts, ranks)
    if ranks:
        session.summary.ranks = [ranks[rank] for rank in sorted(ranks)]
        session.summary.world_size = max(ranks) + 1
    complete_rates(session.summary, ())
    complete_losses(session)
    session.summary.best_loss = None  # the files have the last loss only
    return session


def take_metrics(session: TrainingSession, facts: Mapping[str, Any]) -> None:
    """Add the last metrics of a rank, with its epochs, last step and planned steps, to the session."""
    step = whole(facts.get("step") or facts.get("global_step"))
    for name, value in facts.items():
        known = number(value)
        if known is not None and name not in {"step", "epoch", "global_step"}:
            add_metric(session, name, step, None, known)
    session.summary.epochs = number(facts.get("epoch")) or session.summary.epochs
    session.summary.last_step = step or session.summary.last_step
    session.summary.total_steps = whole(facts.get("total_steps")) or session.summary.total_steps


def take_summary(
    session: TrainingSession, rank: int, facts: Mapping[str, Any], ranks: dict[int, SessionRank]
) -> None:
    """Set `ranks[rank]` from a rank's summary.

    For rank 0 also set the session's timers, duration, number of steps and step time.
    """
    timers = {**timers_of(facts.get("timers"), "cpu"), **timers_of(facts.get("cuda_timers"), "cuda")}
    step_name = next((name for name in STEP_TIMERS if name in timers), None)
    step = timers[step_name] if step_name else None
    host = facts.get("hostname")
    ranks[rank] = SessionRank(
        rank=rank,
        node=host if isinstance(host, str) else None,
        steps=step.count if step else None,
        step_time_mean_s=step.mean if step else None,
        peak_memory_bytes=peak_memory(facts.get("gpu_memory")),
    )
    if rank == 0:
        summary = session.summary
        summary.timers = timers
        summary.duration_s = number(facts.get("total_time"))
        if step is not None and step_name is not None:
            summary.steps = step.count
            summary.step_time_s = step_statistics(facts.get("timers"), facts.get("cuda_timers"), step_name)


def timers_of(facts: object, kind: str) -> dict[str, TimerTotals]:
    """Return name -> totals of a rank's timers; empty if `facts` is no object."""
    if not isinstance(facts, dict):
        return {}
    return {
        name: TimerTotals(
            count=whole(each.get("count")),
            mean=number(each.get("mean")),
            total=number(each.get("total")),
            min=number(each.get("min")),
            max=number(each.get("max")),
            kind=kind,
        )
        for name, each in facts.items()
        if isinstance(each, dict)
    }


def step_statistics(timers: object, cuda_timers: object, name: str) -> StepTimeStatistics | None:
    """Return the timer `name` as step-time statistics; None if there is none."""
    for each in (timers, cuda_timers):
        facts = each.get(name) if isinstance(each, dict) else None
        if isinstance(facts, dict):
            return StepTimeStatistics(
                count=whole(facts.get("count")),
                mean=number(facts.get("mean")),
                std_dev=number(facts.get("std_dev")),
                min=number(facts.get("min")),
                p50=number(facts.get("median")),
                max=number(facts.get("max")),
            )
    return None


def peak_memory(facts: object) -> int | None:
    """Return the highest memory allocated by torch (bytes); None: unknown."""
    entries = facts if isinstance(facts, list) else [facts]
    values = [number(each.get("allocated")) for each in entries if isinstance(each, dict)]
    known = [value for value in values if value is not None]
    return round(max(known) * MIB) if known else None
