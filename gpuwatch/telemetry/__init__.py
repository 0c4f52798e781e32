"""The library that a training script imports: rank logs, timers, session folders.

It needs only the standard library; torch is optional.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base.settings import TelemetrySettings as TelemetrySettings
    from .logs.rank_logging import init_process_group as init_process_group
    from .logs.rank_logging import log_process_group as log_process_group
    from .logs.rank_logging import setup_distributed_logging as setup_distributed_logging
    from .logs.rank_logging import setup_rank_logging as setup_rank_logging
    from .tracing.communication import CommunicationProfiler as CommunicationProfiler
    from .tracing.profiling import ProfilerSettings as ProfilerSettings
    from .tracing.profiling import TrainingProfiler as TrainingProfiler
    from .tracing.tracer import DistributedTracer as DistributedTracer
    from .tracker.tracker import TelemetryTracker as TelemetryTracker
    from .training.gradients import gradient_report as gradient_report
    from .training.model_facts import model_memory_mb as model_memory_mb
    from .training.model_facts import parameter_table as parameter_table
    from .writers.tensorboard import TensorBoardWriter as TensorBoardWriter
    from .writers.wandb import WandbWriter as WandbWriter

_HOMES = {
    "CommunicationProfiler": "tracing.communication",
    "DistributedTracer": "tracing.tracer",
    "ProfilerSettings": "tracing.profiling",
    "TelemetrySettings": "base.settings",
    "TelemetryTracker": "tracker.tracker",
    "TensorBoardWriter": "writers.tensorboard",
    "TrainingProfiler": "tracing.profiling",
    "WandbWriter": "writers.wandb",
    "gradient_report": "training.gradients",
    "init_process_group": "logs.rank_logging",
    "log_process_group": "logs.rank_logging",
    "model_memory_mb": "training.model_facts",
    "parameter_table": "training.model_facts",
    "setup_distributed_logging": "logs.rank_logging",
    "setup_rank_logging": "logs.rank_logging",
}
"""Public name -> the module that defines it, which is imported when the name is first used."""
__all__ = sorted(_HOMES)  # noqa: PLE0605 - the table above is the list


def __getattr__(name: str) -> Any:
    """Return a public name of the library, whose module is imported at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
