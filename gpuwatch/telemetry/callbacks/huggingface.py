"""`TelemetryCallback` for the Trainer of Hugging Face transformers and its subclasses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback

from ..base.settings import TelemetrySettings
from ..summaries.files import timer_metrics
from ..tracing.communication import watch_gradients
from ..tracker.tracker import TelemetryTracker


class TelemetryCallback(TrainerCallback):  # type: ignore[misc]  # the framework is not typed where it is not installed
    """A callback that times steps, micro-steps and epochs, and records the training in a session folder.

    `trainer.add_callback(TelemetryCallback())` is enough; `add_telemetry(trainer)` puts it before the
    reporters of the Trainer, so that TensorBoard and W&B get its metrics, too.
    """

    def __init__(
        self,
        settings: TelemetrySettings | None = None,
        *,
        output_dir: str | None = None,
        logs_dir: str | None = "logs",
        **options: Any,
    ) -> None:
        """Create a callback.

        Args:
            settings: What is collected; `logging_strategy` is set to `no` in it.
            output_dir: The folder of the `telemetry_callback_*` files.
            logs_dir: Where session folders are created; None: none.
            **options: Fields of `TelemetrySettings`, instead of `settings`: `track_gpu_temperature=True`.
        """
        chosen = settings or TelemetrySettings(**options)
        chosen.logging_strategy = "no"  # the Trainer decides when a step is logged
        self.settings = chosen
        self.tracker = TelemetryTracker(chosen, output_dir=output_dir, logs_dir=logs_dir)
        self._tokens_seen = 0.0
        self._first_step = 0
        self._mark = 0.0
        self._epoch: Any = None
        self.trainer: Any = None
        """The Trainer, if `add_telemetry` was called: it has the DDP module."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Open the session; every rank collects, unless `world_process_zero_only` is set."""
        model = kwargs.get("model")
        if self.settings.world_process_zero_only is None:
            self.settings.world_process_zero_only = False  # each rank keeps its part of the session
        precision = "bf16" if args.bf16 else "fp16" if args.fp16 else "no"
        self.tracker.start(
            model,
            total_steps=state.max_steps,
            configuration=args.to_dict(),
            mixed_precision=precision,
            per_device_batch_size=args.per_device_train_batch_size,
            gradient_accumulation_steps=args.gradient_accumulation_steps,
            global_batch_size=args.train_batch_size * args.gradient_accumulation_steps * args.world_size,
        )
        watch_gradients(self.tracker, getattr(self.trainer, "model_wrapped", None))
        self._first_step = state.global_step
        self._mark = time.perf_counter()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the timer of an epoch."""
        self._epoch = self.tracker.timer("epochs")
        self._epoch.__enter__()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stop the timer of an epoch."""
        if self._epoch is not None:
            self._epoch.__exit__(None, None, None)
            self._epoch = None

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End a micro-step of gradient accumulation."""
        self.tracker.microstep()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End a step and its last micro-step; after `skip_first_steps` steps, drop the times so far."""
        self.tracker.microstep()
        seen = float(getattr(state, "num_input_tokens_seen", 0) or 0)
        tokens = (seen - self._tokens_seen) / args.world_size if seen > self._tokens_seen else None
        self._tokens_seen = max(seen, self._tokens_seen)
        samples = args.train_batch_size * args.gradient_accumulation_steps
        self.tracker.step(state.global_step, samples=samples, tokens=tokens, epoch=state.epoch)
        self._mark = time.perf_counter()
        if state.global_step - self._first_step == self.settings.skip_first_steps:
            self.tracker.reset_timers()

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Log the newest step with the Trainer's values, if they contain a loss.

        The settings `include_performance_metrics` and `include_timer_metrics` add their values to `logs`.
        """
        if logs is None or "loss" not in logs:
            return
        line = self.tracker.log_step(
            loss=logs.get("loss"),
            learning_rate=logs.get("learning_rate"),
            grad_norm=logs.get("grad_norm"),
            epoch=logs.get("epoch"),
        )
        logs.update(self._added(line))

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Log the results, and exclude the evaluation from the step time."""
        self._leave_out("evaluation")
        if metrics:
            self.tracker.evaluation(metrics, state.global_step)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Exclude the checkpoint from the step time."""
        self._leave_out("checkpoint")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the session; with `collect_telemetry_for_all_ranks` the ranks gather their summaries here."""
        self.tracker.finish()

    def _leave_out(self, name: str) -> None:
        now = time.perf_counter()
        self.tracker.leave_out(name, now - self._mark)
        self._mark = now

    def _added(self, line: Mapping[str, Any]) -> dict[str, float]:
        found: dict[str, float] = {}
        if self.settings.include_performance_metrics:
            names = {
                "tokens_per_s": "tokens_per_second",
                "samples_per_s": "samples_per_second",
                "mfu": "train_step_mfu",
            }
            found.update({name: line[key] for key, name in names.items() if line.get(key) is not None})
            overall = self.tracker.overall_mfu()
            if overall is not None:
                found["train_mfu"] = overall
        if self.settings.include_timer_metrics:
            found.update(timer_metrics(self.tracker.get_summary(), self.tracker.facts.rank))
        return found


def add_telemetry(
    trainer: Any, callback: TelemetryCallback | None = None, **options: Any
) -> TelemetryCallback:
    """Insert a callback before all others of a Trainer, so that reporters see its metrics; return it.

    It measures the gradient synchronization of several ranks, too (see `watch_gradients`). `options`: for a
    new callback; ignored if `callback` is given.
    """
    callback = callback or TelemetryCallback(**options)
    callback.trainer = trainer
    trainer.callback_handler.callbacks.insert(0, callback)
    return callback
