"""Writes the lines of a training (steps, performance, communication, warnings) to logs and session."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping
from typing import Any

from ..base.json_files import as_number
from ..base.ranks import ProcessGroupFacts, RankFacts
from ..base.settings import TelemetrySettings
from ..session import lines
from ..session.recorder import SessionRecorder
from ..training.steps import Flops, StepTotals, StepValues

LOW_UTILIZATION_PCT = 50.0
"""A mean utilization (%) of a GPU between two performance lines below this is a warning."""
SLOW_STEP_S = 10.0
REPEAT_WARNING_S = 60.0
LOG_OF_CLASS = {"comm": "multigpu", "ranks": "multigpu", "perf": "performance"}
"""First word of the class of a warning -> its log; other classes go to the main log."""


class StepLog:
    """Writes the lines of one rank to its logger and, on rank 0, to the session's logs."""

    def __init__(
        self,
        recorder: SessionRecorder,
        facts: RankFacts,
        settings: TelemetrySettings,
        logger: logging.Logger | None,
    ) -> None:
        self._recorder = recorder
        self._facts = facts
        self._settings = settings
        self._logger = logger
        self._communication: dict[str, list[Any]] = {}
        self._lock = threading.Lock()
        self._warned: dict[str, float] = {}

    def opened(self, group: ProcessGroupFacts | None) -> None:
        """Write the process group and the mark `training_start`; nothing if `group` is None."""
        if group is None:
            return
        if self._recorder.logs is not None:
            self._recorder.logs.process_group(group.backend, group.world_size, self._facts.local_rank)
            extra = f"Processes: {group.world_size}"
            self._recorder.logs.communication("training_start", extra=extra)
        if self._facts.rank == 0:  # a mark of the job, not an operation of each rank
            self._recorder.communication.add("training_start")

    def check(self, values: StepValues) -> None:
        """Warn if the loss is NaN or Inf; only a Python float is checked, a tensor would wait for the GPU."""
        if isinstance(values.loss, float) and not math.isfinite(values.loss):
            self.warn("num.nan_loss", f"the loss at step {values.step} is {values.loss}")

    def step(
        self, totals: StepTotals, flops: Flops, total_steps: int | None, elapsed_s: float
    ) -> dict[str, float | None]:
        """Write the newest step; return the numbers of its line; empty if there was no step.

        The window `since_line` of `totals` starts again, and its losses are updated.

        `elapsed_s`: seconds since the start, including pauses between steps.
        """
        values = totals.last
        if values is None:
            return {}
        loss, norm = as_number(values.loss), as_number(values.grad_norm)
        totals.take_loss(loss)
        self._check_numbers(values, loss, norm)
        if norm is not None and math.isfinite(norm):
            totals.final_grad_norm = norm
        window = totals.since_line
        tokens_per_s = totals.job_rate(window, window.tokens)
        line: dict[str, Any] = {
            "step": values.step,
            "total_steps": total_steps,
            "loss": loss,
            "learning_rate": as_number(values.learning_rate),
            "steps_per_s": window.steps / window.seconds if window.seconds > 0 else None,
            "eta_s": totals.eta_s(total_steps),
            "step_time_s": window.seconds / window.steps if window.steps else None,
            "samples_per_s": totals.job_rate(window, window.samples),
            "tokens_per_s": tokens_per_s,
            "grad_norm": norm,
            "mfu": flops.mfu(tokens_per_s),
            "mfu_overall": flops.mfu(totals.overall_rate(totals.all.tokens, elapsed_s)),
            "communication_s": self._communication_s(window.steps),
            "epoch": values.epoch,
        }
        totals.since_line = type(window)()
        logs = self._recorder.logs
        if logs is not None:
            logs.step(line)
            if self._facts.world_size > 1 and self._settings.detailed_communication_logs:
                logs.rank_step(values.step, self._facts.world_size, self._facts.local_rank, self._facts.rank)
        if self._logger is not None:
            self._logger.info("%s", lines.rank_line(line))
        self.flush_communication()
        return line

    def performance(self, totals: StepTotals) -> None:
        """Write mean step time and throughput since the last such line; warn of slow steps and idle GPUs.

        Nothing without steps; else the window `since_performance` of `totals` starts again.
        """
        window = totals.since_performance
        if not window.steps or totals.last is None:
            return
        mean_s = window.seconds / window.steps
        samples_per_s = totals.job_rate(window, window.samples)
        batch = round(window.samples * totals.data_parallel / window.steps) if window.samples else None
        totals.since_performance = type(window)()
        if self._recorder.logs is not None:
            self._recorder.logs.performance(totals.last.step, mean_s, samples_per_s, batch)
        if self._logger is not None:
            self._logger.info("%s", lines.performance_line(totals.last.step, mean_s, samples_per_s, batch))
        if mean_s > SLOW_STEP_S:
            self.warn("perf.slow_step", f"Slow training detected: {mean_s:.1f}s per step")
        for index, mean in sorted(self._recorder.gpus.take_recent_utilization().items()):
            if mean < LOW_UTILIZATION_PCT:
                self.warn("perf.gpu_utilization_low", f"GPU {index} utilization low: {mean:.1f}%")

    def evaluation(self, results: Mapping[str, float]) -> None:
        """Write the results of an evaluation."""
        if self._recorder.logs is not None:
            self._recorder.logs.evaluation(results)
        if self._logger is not None:
            self._logger.info(
                "Evaluation results: %s", ", ".join(f"{k}: {v:.4f}" for k, v in results.items())
            )

    def communication(
        self, operation: str, size_bytes: float | None, duration_s: float | None, count: int
    ) -> None:
        """Add operations to the sums that `flush_communication` writes next."""
        self._recorder.communication.add(operation, size_bytes, duration_s, count)
        with self._lock:
            sums = self._communication.setdefault(operation, [0, None, None])
            sums[0] += count
            if size_bytes is not None:
                sums[1] = (sums[1] or 0.0) + size_bytes
            if duration_s is not None:
                sums[2] = (sums[2] or 0.0) + duration_s

    def _communication_s(self, steps: int) -> float | None:
        """Return the seconds of communication per step since the last line; None: nothing was timed."""
        with self._lock:
            known = [seconds for _, _, seconds in self._communication.values() if seconds is not None]
        return sum(known) / steps if known and steps else None

    def flush_communication(self) -> None:
        """Write one line per operation, with the sums since the last one.

        If `detailed_communication_logs` is off, the sums are dropped and nothing is written.
        """
        with self._lock:
            found, self._communication = self._communication, {}
        if not self._settings.detailed_communication_logs:
            return
        for operation, (count, size, seconds) in found.items():
            if self._recorder.logs is not None:
                self._recorder.logs.communication(operation, size_bytes=size, duration_s=seconds, count=count)
            if self._logger is not None:
                rank = self._facts.rank
                text = lines.communication_line(
                    operation, rank, size_bytes=size, duration_s=seconds, count=count
                )
                self._logger.getChild("multigpu").info("%s", text)

    def gpu(self, reading: Mapping[str, Any]) -> None:
        """Add a reading of a GPU; called by the sampling thread."""
        self._recorder.gpus.add(reading)
        if self._recorder.logs is not None:
            self._recorder.logs.gpu(reading, self._facts.host)

    def model(self, model: Any) -> None:
        """Write architecture and parameters of the model to the logger, without one to the main log."""
        from ..training.model_facts import model_summary  # noqa: PLC0415 - the import stays light

        if self._logger is not None:
            self._logger.info("Model summary:\n%s", model_summary(model))
        elif self._recorder.logs is not None:
            for line in model_summary(model).splitlines():
                self._recorder.logs.note(line)

    def warn(self, name: str, text: str) -> None:
        """Count a warning; write the first of its class, and later ones at most once a minute."""
        is_first = self._recorder.warnings.add(name, text)
        now = time.monotonic()
        with self._lock:
            if not is_first and now - self._warned.get(name, -REPEAT_WARNING_S) < REPEAT_WARNING_S:
                return
            self._warned[name] = now
        if self._recorder.logs is not None:
            self._recorder.logs.warning(text, log=LOG_OF_CLASS.get(name.split(".", 1)[0], "main"))
        if self._logger is not None:
            self._logger.warning("%s", text)

    def _check_numbers(self, values: StepValues, loss: float | None, norm: float | None) -> None:
        if loss is not None and not math.isfinite(loss) and not isinstance(values.loss, float):
            self.warn("num.nan_loss", f"the loss of step {values.step} is {loss}")
        if norm is not None and not math.isfinite(norm):
            self.warn("num.nan_grad", f"the gradient norm at step {values.step} is {norm}")
