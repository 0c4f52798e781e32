"""`LightningTelemetry`: a callback of PyTorch Lightning, for both names of its package."""

from __future__ import annotations

import time
from typing import Any

from ..base.json_files import as_number
from ..base.settings import TelemetrySettings
from ..session.recorder import status_of
from ..tracing.communication import watch_gradients
from ..tracker.tracker import TelemetryTracker

try:
    from lightning.pytorch import Callback
except ImportError:  # the older package of the same library
    from pytorch_lightning import Callback


class LightningTelemetry(Callback):  # type: ignore[misc]  # the framework is not typed where it is not installed
    """Records telemetry of a training into files: `Trainer(callbacks=[LightningTelemetry()])`.

    The loss is the one that `training_step` returns.
    """

    def __init__(
        self,
        settings: TelemetrySettings | None = None,
        *,
        output_dir: str | None = None,
        logs_dir: str | None = "logs",
        batch_size: int | None = None,
        **options: Any,
    ) -> None:
        """Create a callback.

        Args:
            settings: What is collected.
            output_dir: The folder of the `telemetry_callback_*` files.
            logs_dir: Where session folders are created; None: none.
            batch_size: Samples of one batch of this rank, for the throughput.
            **options: Fields of `TelemetrySettings`, instead of `settings`.
        """
        super().__init__()
        self.tracker = TelemetryTracker(
            settings or TelemetrySettings(**options), output_dir=output_dir, logs_dir=logs_dir
        )
        self._batch_size = batch_size
        self._batches = 0
        self._step = 0
        self._epoch: Any = None
        self._pause_began = 0.0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Open the session."""
        planned = trainer.estimated_stepping_batches
        self.tracker.start(
            pl_module,
            total_steps=int(planned) if planned not in {float("inf"), -1} else None,
            configuration=dict(getattr(pl_module, "hparams", None) or {}),
            mixed_precision=str(trainer.precision),
            per_device_batch_size=self._batch_size,
            gradient_accumulation_steps=trainer.accumulate_grad_batches,
        )
        watch_gradients(self.tracker, getattr(trainer.strategy, "model", None))
        self._step = trainer.global_step

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the timer of an epoch."""
        self._epoch = self.tracker.timer("epochs")
        self._epoch.__enter__()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop the timer of an epoch."""
        if self._epoch is not None:
            self._epoch.__exit__(None, None, None)
            self._epoch = None

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End a micro-step, and a step if the optimizer has stepped."""
        self.tracker.microstep()
        self._batches += 1
        if trainer.global_step == self._step:
            return
        self._step = trainer.global_step
        samples = self._batch_size * self._batches if self._batch_size else None
        self._batches = 0
        optimizers = trainer.optimizers
        self.tracker.step(
            self._step,
            loss=outputs.get("loss") if isinstance(outputs, dict) else outputs,
            learning_rate=optimizers[0].param_groups[0]["lr"] if optimizers else None,
            samples=samples,
            epoch=float(trainer.current_epoch),
        )

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Start to measure the time that is excluded from the step."""
        self._pause_began = time.perf_counter()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the metrics whose name contains `val`, and exclude the validation from the step time.

        The sanity check before the training is ignored.
        """
        if trainer.sanity_checking:
            return
        self.tracker.leave_out("evaluation", time.perf_counter() - self._pause_began)
        numbers = {name: as_number(value) for name, value in trainer.callback_metrics.items()}
        results = {name: value for name, value in numbers.items() if value is not None and "val" in name}
        if results:
            self.tracker.evaluation(results, trainer.global_step)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the session as failed or interrupted."""
        self.tracker.finish(*status_of(exception))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End the session."""
        self.tracker.finish()
