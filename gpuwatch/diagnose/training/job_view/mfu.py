"""Model FLOPs utilization that the log does not report: from tokens per second, model and GPUs."""

from __future__ import annotations

from typing import Literal, TypeAlias

from gpuwatch.hosts.plan import Model
from gpuwatch.telemetry.training.flops import transformer_flops_per_token

Scope: TypeAlias = Literal["gpu", "job"]
"""Scope of a logged tokens-per-second value: one GPU, or the whole job."""

PER_GPU = frozenset((
    "progress.torchtitan", "progress.torchtune", "progress.maxtext", "progress.olmo", "progress.internevo",
    "progress.verl",
))  # fmt: skip
PER_JOB = frozenset(("progress.nanotron", "progress.nanochat", "progress.llm_c", "progress.fairseq"))
"""Dialects with a known job scope; for all others the hosts file must give it (`tokens_per_s`)."""
TFLOPS_PER_GPU = frozenset((
    "progress.megatron", "progress.torchtitan", "progress.torchtune", "progress.maxtext", "progress.nanotron",
))  # fmt: skip
"""Dialects that log the TFLOP/s of one GPU."""


def flops_per_token(model: Model) -> float:
    """Return the floating point operations per token; recomputed activations do not count."""
    return transformer_flops_per_token(model.params, model.layers, model.hidden, model.seq_len)


def mfu(tokens_per_s: float, gpus: int, model: Model, peak_flops: float) -> float:
    """Return the share of the GPUs' peak (0 to 1) that the model's arithmetic uses.

    Args:
        tokens_per_s: Tokens per second of the whole job.
        gpus: Number of GPUs that work on it.
        model: The size of the model.
        peak_flops: Dense FLOP/s of one of the GPUs.
    """
    return flops_per_token(model) * tokens_per_s / (gpus * peak_flops)


def scope_of(dialect: str, reported_by: int, model: Model | None) -> Scope | None:
    """Return the scope of a log's tokens per second; None: unknown.

    Args:
        dialect: The dialect of the log.
        reported_by: Number of ranks that report a value; if several do, each reports its own.
        model: The model of the hosts file; if it states the scope, that decides.
    """
    if model is not None and model.tokens_per_s is not None:
        return model.tokens_per_s
    if dialect in PER_GPU or reported_by > 1:
        return "gpu"
    return "job" if dialect in PER_JOB else None
