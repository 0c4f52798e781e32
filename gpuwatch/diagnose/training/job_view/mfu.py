"""Model FLOPs utilization that the log does not report: from tokens per second, model and GPUs."""

from __future__ import annotations

from gpuwatch.hosts.plan import Model
from gpuwatch.rules.model.dialect import Dialect, Scope
from gpuwatch.telemetry.training.flops import transformer_flops_per_token


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


def scope_of(dialect: Dialect | None, reported_by: int, model: Model | None) -> Scope | None:
    """Return the scope of a log's tokens per second; None: unknown, the hosts file must state it.

    Args:
        dialect: The dialect of the log, which may state the scope; None: unknown.
        reported_by: Number of ranks that report a value; if several do, each reports its own.
        model: The model of the hosts file; if it states the scope, that decides.
    """
    if model is not None and model.tokens_per_s is not None:
        return model.tokens_per_s
    if reported_by > 1:
        return "gpu"
    return None if dialect is None else dialect.tokens_of
