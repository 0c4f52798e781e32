"""Maps metric names of HF Trainer, Lightning, Oumi, W&B and gpuwatch to curves."""

from __future__ import annotations

import math
import re

from gpuwatch.plain import plain
from gpuwatch.runs.sessions.model.session import TrainingSession

CURVES = {
    "loss": "loss",
    "train_loss": "loss",
    "lm loss": "loss",
    "learning_rate": "learning_rate",
    "lr": "learning_rate",
    "grad_norm": "grad_norm",
    "gradient_norm": "grad_norm",
    "samples_per_second": "samples_per_s",
    "samples_per_s": "samples_per_s",
    "train_samples_per_second": "samples_per_s",
    "tokens_per_second": "tokens_per_s",
    "tokens_per_s": "tokens_per_s",
    "steps_per_second": "steps_per_s",
    "steps_per_s": "steps_per_s",
    "train_steps_per_second": "steps_per_s",
    "eval_loss": "eval_loss",
    "val_loss": "eval_loss",
    "communication_s": "communication_s",
}
"""Last component of a metric's name -> curve."""
PAIRS = {
    ("loss", "train"): "loss",
    ("eval", "loss"): "eval_loss",
    ("val", "loss"): "eval_loss",
    ("valid", "loss"): "eval_loss",
    ("validation", "loss"): "eval_loss",
    ("loss", "eval"): "eval_loss",
    ("loss", "val"): "eval_loss",
    ("gpu", "utilization"): "gpu_utilization_pct",
    ("communication", "time"): "communication_s",
    ("throughput", "tokens"): "tokens_per_s",
    ("throughput", "samples"): "samples_per_s",
}
"""Last two components of a metric's name -> curve; takes precedence over CURVES."""
MFU = {
    "train_step_mfu": "mfu_step",
    "mfu": "mfu_step",
    "train_mfu": "mfu_overall",
    "mfu_overall": "mfu_overall",
}
EVALUATION = re.compile(r"^(?:eval|val|valid|validation)[/_]")
NOT_RESULTS = re.compile(r"runtime|_per_second|epoch|step$")


def curve_of(name: str) -> str | None:
    """Return the name of the curve that a metric belongs to, or None."""
    parts = name.lower().strip().split("/")
    return (PAIRS.get((parts[-2], parts[-1])) if len(parts) > 1 else None) or CURVES.get(parts[-1])


def add_metric(
    session: TrainingSession, name: str, step: int | None, time: float | None, value: float, writer: str = ""
) -> bool:
    """Add one value of a metric to the session; return False if it is neither a curve nor an MFU value.

    A result of an evaluation is also stored as such.
    """
    curve = curve_of(name)
    if curve is not None:
        session.curves.add(curve, step, time, value, writer)
    kept = MFU.get(name.lower().rpartition("/")[2])
    if kept is not None and math.isfinite(value):
        setattr(session.summary, kept, value)
    if EVALUATION.search(name) and not NOT_RESULTS.search(name) and math.isfinite(value):
        results = session.summary.evaluation or {}
        results[plain(name)] = value
        session.summary.evaluation = results
    return curve is not None or kept is not None
