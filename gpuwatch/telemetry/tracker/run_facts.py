"""The facts that a script gives about its run at the start, as keys of the session's summary."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any

from ..base.json_files import as_mapping
from ..base.ranks import RankFacts, loaded_torch, process_group
from ..base.records import record
from ..base.settings import LIBRARY_VERSION
from ..gpu.own_gpus import own_gpu_index
from ..summaries.text import MIB
from ..training.flops import peak_flops, transformer_flops_per_token
from ..training.steps import Flops, StepTotals
from .rank_tracker import allocator_memory

_LOG = logging.getLogger("gpuwatch.telemetry")
WRITER = f"gpuwatch.telemetry {LIBRARY_VERSION}"


@record
class RunFacts:
    """The values that a training script states to the tracker about its run; None: not stated."""

    model: Any = None
    """The torch module; its parameters are counted."""
    total_steps: int | None = None
    configuration: Any = None
    """A mapping or an object with attributes: stored in the summary, secrets masked."""
    model_name: str | None = None
    mixed_precision: str | None = None
    """`bf16`, `fp16` or `no`."""
    global_batch_size: int | None = None
    per_device_batch_size: int | None = None
    gradient_accumulation_steps: int | None = None
    sequence_length: int | None = None
    parameters: int | None = None
    """Number of parameters used per token, if the module does not show it (sharded, mixture of experts)."""
    layers: int | None = None
    hidden_size: int | None = None
    flops_per_token: float | None = None
    """Floating point operations of forward and backward; by default from the parameters and the shape."""
    peak_flops: float | None = None
    """Dense FLOP/s of one GPU; by default from its name."""
    data_parallel_size: int | None = None
    """Number of ranks that read different samples; the world size by default."""
    forced_single_gpu: bool | None = None

    def known(self, facts: RankFacts, run_name: str | None) -> dict[str, Any]:
        """Return the stated values, and those of the process group, as keys of the session's summary."""
        group = process_group()
        model = self._model_facts()
        if self.model_name:
            model["name"] = self.model_name
        return {
            "writer": WRITER,
            "name": run_name,
            "mode": "multi" if facts.world_size > 1 else "single",
            "forced_single_gpu": is_forced_single_gpu()
            if self.forced_single_gpu is None
            else self.forced_single_gpu,
            "world_size": facts.world_size,
            "gpu_count": facts.world_size if uses_cuda(self.model) else 0,
            "backend": group.backend if group else None,
            "mixed_precision": self.mixed_precision,
            "model": model,
            "batch": {
                "global_size": self.global_batch_size,
                "per_device_size": self.per_device_batch_size,
                "gradient_accumulation_steps": self.gradient_accumulation_steps,
                "sequence_length": self.sequence_length,
            },
            "total_steps": self.total_steps,
            "configuration": as_mapping(self.configuration),
        }

    def _model_facts(self) -> dict[str, Any]:
        """Return the `model` object of the summary.

        Empty if the parameters cannot be counted (lazy parameters, another library's model).
        """
        if self.model is None:
            return {}
        from ..training.model_facts import model_facts  # noqa: PLC0415 - the import stays light

        try:
            return model_facts(self.model, self.model_name)
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            _LOG.warning("the parameters of the model cannot be counted: %s", error)
            return {}

    def flops(self, facts: RankFacts) -> Flops:
        """Return the inputs from which the MFU is computed."""
        parameters: float | None = self.parameters
        if parameters is None:
            parameters = self._model_facts().get("parameters")
        per_token = self.flops_per_token
        if per_token is None and parameters:
            per_token = transformer_flops_per_token(
                parameters, self.layers, self.hidden_size, self.sequence_length
            )
        return Flops(per_token, self.peak_flops or own_peak_flops(), facts.world_size)


TIMER_KEYS = ("count", "mean", "total", "min", "max")


def rank_state(facts: RankFacts, totals: StepTotals, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return `timers` and `ranks` of a session's summary, made from the summary of a rank."""
    timers = {
        name: {**{key: each.get(key) for key in TIMER_KEYS}, "kind": kind}
        for part, kind in (("timers", "cpu"), ("cuda_timers", "cuda"))
        for name, each in summary[part].items()
    }
    peak = (allocator_memory() or ({}, {}))[1].get("allocated")
    rank = {
        "rank": facts.rank,
        "local_rank": facts.local_rank,
        "node": facts.host,
        "pid": facts.pid,
        "gpu_index": own_gpu_index(facts),
        "steps": totals.steps,
        "step_time_mean_s": totals.times.mean,
        "peak_memory_bytes": None if peak is None else round(peak * MIB),
        "exit_code": None,
        "log": None,
    }
    return {"timers": timers, "ranks": [rank]}


def uses_cuda(model: Any) -> bool:
    """Return True if the script computes on CUDA or ROCm: its model is there, or a device was used."""
    torch = loaded_torch()
    if torch is None or not torch.cuda.is_available():
        return False
    parameters = getattr(model, "parameters", None)
    return bool(torch.cuda.is_initialized()) or (
        callable(parameters) and any(each.is_cuda for each in parameters())
    )


def is_forced_single_gpu() -> bool | None:
    """Return True if this program's arguments contain `--force-single-gpu`, else None: it is unknown then."""
    return True if any(re.match(r"--force[-_]single[-_]gpu\b", each) for each in sys.argv[1:]) else None


def own_peak_flops() -> float | None:
    """Return the peak FLOP/s of this rank's GPU by its name; None: no GPU, or not in the table."""
    torch = loaded_torch()
    if torch is None or not torch.cuda.is_available():
        return None
    return peak_flops(torch.cuda.get_device_name())
