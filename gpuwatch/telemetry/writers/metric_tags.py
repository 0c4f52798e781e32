"""The names of metrics in TensorBoard and W&B, and the interface of a writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

TAGS: Mapping[str, str] = {
    "loss": "Loss/train",
    "learning_rate": "Train/learning_rate",
    "grad_norm": "Train/grad_norm",
    "epoch": "Train/epoch",
    "step_time_s": "Time/step",
    "steps_per_s": "Throughput/steps_per_s",
    "samples_per_s": "Throughput/samples_per_s",
    "tokens_per_s": "Throughput/tokens_per_s",
    "mfu": "Throughput/mfu",
    "mfu_overall": "Throughput/mfu_overall",
    "communication_s": "Communication/time",
    "utilization_pct": "GPU/utilization",
    "memory_pct": "GPU/memory",
    "temperature_c": "GPU/temperature",
    "power_w": "GPU/power",
}
"""Name of a value of a step, or of the rank's GPU -> its tag; `Communication/time` is in s per step."""


class MetricWriter(Protocol):
    """The interface of a metric writer."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write numbers by tag for a step."""

    def parameters(self, step: int, model: Any) -> None:
        """Write the distributions of a model's parameters under `Params/<name>`."""

    def close(self) -> None:
        """Flush and close."""


def tagged(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the known values as numbers, under the tags that `TAGS` has for their names."""
    return {tag: float(values[name]) for name, tag in TAGS.items() if values.get(name) is not None}


def tagged_evaluation(results: Mapping[str, float]) -> dict[str, float]:
    """Return the results under tags: `eval_loss` as `Loss/eval`, any other name as `Eval/NAME`."""
    found = {f"Eval/{name}": value for name, value in results.items() if name != "eval_loss"}
    return {**found, **({"Loss/eval": results["eval_loss"]} if "eval_loss" in results else {})}
