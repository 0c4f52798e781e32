"""`AccelerateTelemetry`: a tracker for `Accelerator(log_with=...)` of Hugging Face Accelerate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelerate.tracking import GeneralTracker

from ..base.json_files import as_number
from ..base.records import record_names
from ..base.settings import TelemetrySettings
from ..tracker.run_facts import RunFacts
from ..tracker.tracker import TelemetryTracker

STEP_VALUES: Mapping[str, str] = {
    "loss": "loss", "train_loss": "loss", "train/loss": "loss", "lr": "learning_rate",
    "learning_rate": "learning_rate", "train/learning_rate": "learning_rate", "grad_norm": "grad_norm",
    "samples": "samples", "tokens": "tokens", "epoch": "epoch",
}  # fmt: skip
"""Names in `accelerator.log(...)` that belong to a training step; others belong to an evaluation."""


class AccelerateTelemetry(GeneralTracker):  # type: ignore[misc]  # the framework is not typed where it is not installed
    """A tracker for Accelerate: each `accelerator.log({"loss": ...}, step=N)` ends a step.

    `end_training()` ends the session. Accelerate calls trackers on the main process only. `tracker` is the
    `TelemetryTracker`: its timers work on every rank.
    """

    name = "gpuwatch"
    requires_logging_directory = False
    main_process_only = True

    def __init__(
        self,
        settings: TelemetrySettings | None = None,
        *,
        output_dir: str | None = None,
        logs_dir: str | None = "logs",
        **options: Any,
    ) -> None:
        """Create a tracker.

        Args:
            settings: What is collected.
            output_dir: The folder of the `telemetry_callback_*` files.
            logs_dir: Where session folders are created; None: none.
            **options: Fields of `TelemetrySettings`, instead of `settings`, and of `RunFacts`: `total_steps`,
                `model_name`, ...

        Raises:
            TypeError: An option is neither.
        """
        super().__init__()
        names = record_names(TelemetrySettings)
        chosen = {name: value for name, value in options.items() if name in names}
        self._facts = {name: value for name, value in options.items() if name not in names}
        RunFacts(**self._facts)  # a wrong name is refused here, not in the middle of a script
        self._telemetry = TelemetryTracker(
            settings or TelemetrySettings(**chosen), output_dir=output_dir, logs_dir=logs_dir
        )

    @property
    def tracker(self) -> TelemetryTracker:
        """The tracker."""
        return self._telemetry

    def start(self) -> None:
        """Open the session; `accelerator.init_trackers` calls it."""
        self._telemetry.start(**self._facts)

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Store the configuration."""
        self._telemetry.recorder.update({"configuration": values})

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """End a step if `values` contain a loss or another value of a step.

        Else log them as an evaluation.
        """
        if any(name in STEP_VALUES for name in values):
            known = {STEP_VALUES[name]: value for name, value in values.items() if name in STEP_VALUES}
            others = {name: value for name, value in values.items() if name not in STEP_VALUES}
            self._telemetry.step(
                step, **known, **{name.replace("/", "_"): value for name, value in others.items()}
            )
            return
        numbers = {name: as_number(value) for name, value in values.items()}
        self._telemetry.evaluation(
            {name: value for name, value in numbers.items() if value is not None}, step
        )

    def finish(self) -> None:
        """End the session."""
        self._telemetry.finish()
