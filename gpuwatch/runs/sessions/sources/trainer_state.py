"""Reads the state that HF Trainer saves with a checkpoint: its log history as curves."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from gpuwatch.runs.sessions.folders.json_object import MAX_JSON_BYTES, decoded_object
from gpuwatch.runs.sessions.folders.session_folder import complete_losses, complete_rates
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import EvaluationResults, SessionBatch, SessionSummary
from gpuwatch.runs.sessions.sources.metric_names import add_metric
from gpuwatch.whole_file import read_bounded

NAME = "trainer_state.json"
MAX_EVALUATIONS = 1_000


def read_trainer_state(path: Path, folder: Path) -> TrainingSession:
    """Return one `trainer_state.json` as a session."""
    session = TrainingSession(folder, NAME, SessionSummary(id=folder.name))
    try:
        raw = read_bounded(path, MAX_JSON_BYTES + 1)
    except OSError as error:
        session.problems.append(f"{path.name}: {error.strerror}")
        return session
    facts = decoded_object(raw, path.name, session.problems)
    summary = session.summary
    summary.last_step = summary.steps = whole(facts.get("global_step"))
    summary.total_steps = whole(facts.get("max_steps"))
    summary.epochs = number(facts.get("epoch"))
    size = whole(facts.get("train_batch_size"))
    summary.batch = SessionBatch(per_device_size=size) if size else None
    history = facts.get("log_history")
    for entry in history if isinstance(history, list) else ():
        if isinstance(entry, dict):
            _take(session, entry)
    complete_rates(summary, ())
    complete_losses(session)
    return session


def _take(session: TrainingSession, entry: dict[str, Any]) -> None:
    """Process an entry of the history: a step, an evaluation, or the end."""
    summary = session.summary
    step = whole(entry.get("step"))
    if "train_runtime" in entry:
        summary.duration_s = number(entry["train_runtime"])
        summary.samples_per_s = number(entry.get("train_samples_per_second"))
        summary.status = "completed"
        return
    results: dict[str, float | None] = {
        name: value
        for name in entry
        if name.startswith("eval_") and (value := number(entry[name])) is not None
    }
    if results:
        summary.evaluation = results
        evaluations = [*(summary.evaluations or ()), EvaluationResults(step=step, results=dict(results))]
        summary.evaluations = evaluations[-MAX_EVALUATIONS:]
    for name, value in entry.items():
        if (known := number(value)) is not None and name not in {"step", "epoch"}:
            add_metric(session, name, step, None, known)


def number(value: object) -> float | None:
    """Return the value as float if it is a finite number, else None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def whole(value: object) -> int | None:
    """Return the value as a count (an int, not negative), else None."""
    found = number(value)
    return None if found is None or found < 0 else int(found)
