"""Formats the lines of a session's three logs. Pure; gpuwatch's progress dialects read every form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MB, FEW_BYTES = 1e6, 1e5
SHORT_LEVELS = {"WARNING": "WARN", "CRITICAL": "ERROR"}


def main_record(clock: str, level: str, text: str) -> str:
    """Return a record of the main log; `clock` is HH:MM:SS."""
    return f"{clock} | {SHORT_LEVELS.get(level, level):<5} | {text}"


def worker_record(stamp: str, level: str, rank: int, text: str) -> str:
    """Return a record of the multi-GPU or performance log; `stamp` is YYYY-mm-dd HH:MM:SS."""
    process = "MainProcess" if rank == 0 else f"Rank {rank}"
    return f"{stamp} | {level:<8} | {process:<12} | {text}"


def header(facts: Mapping[str, Any]) -> list[str]:
    """Return the texts at a session's start; `facts` has the keys of the summary."""
    is_multi = facts.get("mode") == "multi"
    lines = ["🚀 TRAINING SESSION STARTED", f"Session ID: {facts.get('id')}"]
    if facts.get("run_id"):
        lines.append(f"Run ID: {facts['run_id']}")
    lines += [
        f"Mode: {'MULTI-GPU' if is_multi else 'SINGLE-GPU'}",
        f"GPU Count: {facts.get('gpu_count') or 0}",
    ]
    name = (facts.get("model") or {}).get("name")
    if name:
        lines.append(f"Model: {name}")
    if facts.get("forced_single_gpu"):
        lines.append("FORCED SINGLE GPU MODE - Using GPU 0 only")
    return lines


def configuration_block(facts: Mapping[str, Any], rank: int) -> list[str]:
    """Return the log lines with the configuration of a run of several ranks; empty for one rank."""
    if facts.get("mode") != "multi":
        return []
    lines = ["", "📡 MULTI-GPU CONFIGURATION:", f"  • Accelerator processes: {facts.get('world_size')}"]
    lines.append(f"  • Current process rank: {rank}")
    if facts.get("mixed_precision"):
        lines.append(f"  • Mixed precision: {facts['mixed_precision']}")
    for gpu in facts.get("gpus") or ():
        total = gpu.get("memory_total_bytes")
        size = f" ({total / 1e9:.1f}GB)" if total else ""
        lines.append(f"  • GPU {gpu.get('index')}: {gpu.get('name') or 'unknown'}{size}")
    return [*lines, ""]


def step_line(values: Mapping[str, Any]) -> str:
    """Return the line of a step, without unknown values.

    Args:
        values: `step`, and any of `total_steps`, `loss`, `learning_rate`, `steps_per_s`, `eta_s` (seconds).
    """
    step, total = values["step"], values.get("total_steps")
    parts = [f"Step {step:>4}/{total} ({100 * step / total:4.1f}%)" if total else f"Step {step:>4}"]
    if values.get("loss") is not None:
        parts.append(f"Loss: {values['loss']:.4f}")
    if values.get("learning_rate") is not None:
        parts.append(f"LR: {values['learning_rate']:.2e}")
    rate = values.get("steps_per_s")
    if rate is not None:
        parts.append(f"Speed: {rate:.1f} steps/s" if rate >= 0.1 else f"Speed: {rate:.3g} steps/s")
    if values.get("eta_s") is not None:
        parts.append(f"ETA: {values['eta_s'] / 60:.1f}min")
    return " | ".join(parts)


RANK_PARTS = (
    ("samples_per_s", "samples/s: {:.1f}"),
    ("tokens_per_s", "tokens/s: {:.1f}"),
    ("grad_norm", "grad_norm: {:.4f}"),
    ("mfu", "MFU: {:.1%}"),
    ("mfu_overall", "mfu_overall: {:.1%}"),
    ("communication_s", "communication_s: {:.6f}"),
)


def rank_line(values: Mapping[str, Any]) -> str:
    """Return a step with all its numbers on one line, for the log of a rank."""
    found = [form.format(values[name]) for name, form in RANK_PARTS if values.get(name) is not None]
    return " | ".join([step_line(values), *found])


PRECISION = {
    "step_duration": ".3f", "samples_per_second": ".1f", "tokens_per_second": ".1f", "grad_norm": ".4f",
    "elapsed_s": ".1f", "mfu": ".4f", "mfu_overall": ".4f", "communication_s": ".6f", "epoch": ".4g",
}  # fmt: skip


def metrics_line(metrics: Mapping[str, float | None]) -> str:
    """Return the `Metrics:` line below a training step, without unknown values; empty if all are unknown."""
    known = [
        f"{name}: {format(value, PRECISION[name]) if name in PRECISION else repr(value)}"
        for name, value in metrics.items()
        if value is not None
    ]
    return "  └─ Metrics: " + ", ".join(known) if known else ""


def evaluation_block(results: Mapping[str, float]) -> list[str]:
    """Return the lines with the results of an evaluation."""
    return [
        "",
        "📊 EVALUATION RESULTS:",
        *(f"  • {name}: {value:.4f}" for name, value in results.items()),
        "",
    ]


def communication_line(
    operation: str,
    rank: int,
    *,
    size_bytes: float | None = None,
    duration_s: float | None = None,
    count: int = 1,
    extra: str = "",
) -> str:
    """Return the line of a communication; for several operations size and duration are sums."""
    parts = [f"Communication | {operation} | Rank {rank}"]
    if count != 1:
        parts.append(f"Count: {count}")
    if size_bytes is not None:
        parts.append(f"Size: {_megabytes(size_bytes)}MB")
    if duration_s is not None:
        parts.append(f"Duration: {duration_s * 1e3:.2f}ms")
    if size_bytes is not None and duration_s:
        parts.append(f"Bandwidth: {_megabytes(size_bytes / duration_s)}MB/s")
    return " | ".join([*parts, extra] if extra else parts)


def _megabytes(size_bytes: float) -> str:
    """Return a size in MB as text, with two decimals; below 0.1 MB with six."""
    text = f"{size_bytes / MB:.2f}"
    return text if size_bytes >= FEW_BYTES or not size_bytes else f"{size_bytes / MB:.6f}"


def performance_line(
    step: int, step_time_s: float, samples_per_s: float | None = None, batch: int | None = None
) -> str:
    """Return the line with the mean step time, and throughput and batch size of all ranks."""
    parts = [f"Performance | Step {step} | Avg step time: {step_time_s:.3f}s"]
    if samples_per_s is not None:
        parts.append(f"Throughput: {samples_per_s:.1f} samples/s")
    if batch is not None:
        parts.append(f"Total batch size: {batch}")
    return " | ".join(parts)


GPU_VALUES = (
    ("utilization_pct", "Utilization: {:.1f}%"),
    ("memory_pct", "Memory: {:.1f}%"),
    ("temperature_c", "Temperature: {:.0f}C"),
    ("power_w", "Power: {:.1f}W"),
)


def gpu_line(sample: Mapping[str, Any], node: str = "") -> str:
    """Return the line of a GPU reading, without values that the driver does not report."""
    parts = [f"GPU {sample['index']}"]
    parts += [form.format(sample[key]) for key, form in GPU_VALUES if sample.get(key) is not None]
    return " | ".join([*parts, f"Node: {node}"] if node else parts)


def step_metrics(values: Mapping[str, Any], elapsed_s: float | None) -> dict[str, float | None]:
    """Return the values of a step under the names of the metrics line; None: unknown."""
    return {
        "step_duration": values.get("step_time_s"),
        "samples_per_second": values.get("samples_per_s"),
        "tokens_per_second": values.get("tokens_per_s"),
        "grad_norm": values.get("grad_norm"),
        "mfu": values.get("mfu"),
        "mfu_overall": values.get("mfu_overall"),
        "communication_s": values.get("communication_s"),
        "loss": values.get("loss"),
        "learning_rate": values.get("learning_rate"),
        "epoch": values.get("epoch"),
        "elapsed_s": elapsed_s,
    }
