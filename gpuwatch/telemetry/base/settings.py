"""The settings of the library under the names that training configurations use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .records import record, record_names

LIBRARY_VERSION = "0.2.0"
"""The version of gpuwatch; the separate wheel of this library uses it too."""
STRATEGIES = ("steps", "epoch", "no")
SECTIONS = ("training", "telemetry", "profiler")
"""Sections of a configuration file in which settings are also searched."""


@record
class TelemetrySettings:
    """The settings of the library: the collected values, and how often they are logged.

    Steps are optimizer steps.

    Raises:
        ValueError: a value is not possible; the message names the setting.
    """

    logging_steps: int | None = None
    """Number of steps between logged ones, as `log_interval_steps`, over which it takes precedence."""
    logging_strategy: str = "steps"
    """The moments of logging: `steps`; `epoch`, at the end of an epoch; `no`."""
    logging_first_step: bool = False
    log_level: str | int = "info"
    dep_log_level: str | int = "warning"
    log_interval_steps: int = 50
    performance_log_steps: int = 100
    gpu_snapshot_interval: float = 10.0
    """Seconds between two readings of the GPUs; 0: none."""
    detailed_communication_logs: bool = True
    include_performance_metrics: bool = False
    """True to add throughput and MFU to the metrics of callbacks."""
    include_timer_metrics: bool = False
    """True to add the timers to the metrics of callbacks: `rank000_steps_mean`."""
    log_model_summary: bool = False
    collect_telemetry_for_all_ranks: bool = False
    track_gpu_temperature: bool = False
    world_process_zero_only: bool | None = None
    """True to collect on rank 0 only; False or None: on all ranks."""
    skip_first_steps: int = 1
    """Number of first steps left out of the timers of callbacks: they compile and warm up."""
    output_dir: str | None = None
    """The folder of the `telemetry_callback_*` files; None: they are not written."""
    run_name: str | None = None
    enable_wandb: bool = False
    enable_tensorboard: bool = False

    def __post_init__(self) -> None:
        for name in ("logging_steps", "log_interval_steps", "performance_log_steps"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} must be a number of steps, 1 or more, not {value!r}")
        if self.logging_strategy not in STRATEGIES:
            raise ValueError(
                f"logging_strategy is one of {', '.join(STRATEGIES)}, not {self.logging_strategy!r}"
            )
        if self.gpu_snapshot_interval < 0:
            raise ValueError(
                f"gpu_snapshot_interval must be 0 or more seconds, not {self.gpu_snapshot_interval!r}"
            )

    @classmethod
    def from_mapping(cls, configuration: Mapping[str, Any]) -> TelemetrySettings:
        """Return settings with the known names in a training configuration and its sections.

        The value in a section takes precedence if it is not the default.

        Raises:
            ValueError: a value is not possible; the message names the setting.
        """
        names = set(record_names(cls))
        found: dict[str, Any] = {name: configuration[name] for name in names & set(configuration)}
        for section in SECTIONS:
            inner = configuration.get(section)
            if isinstance(inner, Mapping):
                found.update(_present(cls.from_mapping(inner)))
        return cls(**found)

    @property
    def interval(self) -> int:
        """Number of steps from one logged step to the next."""
        return self.logging_steps or self.log_interval_steps

    def is_logged(self, step: int) -> bool:
        """Return True if a step with this number is logged; never except with the strategy `steps`."""
        if self.logging_strategy != "steps":
            return False
        return step % self.interval == 0 or (step == 1 and self.logging_first_step)


def _present(settings: TelemetrySettings) -> dict[str, Any]:
    """Return the settings that differ from the defaults."""
    default = TelemetrySettings()
    return {
        name: getattr(settings, name)
        for name in record_names(TelemetrySettings)
        if getattr(settings, name) != getattr(default, name)
    }
