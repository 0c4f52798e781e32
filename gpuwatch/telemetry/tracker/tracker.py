"""`TelemetryTracker`: measures a rank and records the steps of its training in a session folder."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import sys
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Callable

from ..base.faults import contained
from ..base.json_files import as_amount, as_number, as_whole
from ..base.ranks import identify, process_group
from ..base.settings import TelemetrySettings
from ..gpu.own_gpus import GpuSampler, watched_gpus
from ..session.place import SessionPlace
from ..session.recorder import SessionRecorder, status_of
from ..training.steps import Flops, StepTotals, StepValues
from ..writers.metric_tags import MetricWriter
from .metric_outputs import MetricOutputs
from .model_checks import ModelChecks
from .run_facts import RunFacts, rank_state
from .step_log import StepLog

MAX_EVALUATIONS = 1000
TIMED_OUT = re.compile(
    r"(?i)(?:nccl|gloo|processgroup|all_?reduce|collective|barrier).{0,300}(?:time ?d? ?out)", re.DOTALL
)


class TelemetryTracker(ModelChecks):
    """Timers, memory and temperature of a rank; with `step` also its training, recorded in a session folder.

    Use it as a context manager, or call `finish` at the end: an exception then ends the session as failed. A
    failure to measure or write never ends the training.
    """

    def __init__(
        self,
        settings: TelemetrySettings | None = None,
        *,
        logs_dir: str | os.PathLike[str] | None = "logs",
        output_dir: str | os.PathLike[str] | None = None,
        logger: logging.Logger | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Create a tracker; nothing is written before `start` or the first `step`.

        Args:
            settings: What is collected and logged, and how often.
            logs_dir: Where session folders are created; None: none, except in a run of `gpuwatch run`.
            output_dir: The folder of the `telemetry_callback_*` files.
            logger: Receives the steps and summaries; by default that of `setup_rank_logging`, if it was
                called.
            clock: Seconds.
        """
        super().__init__(settings, output_dir=output_dir, logger=logger, clock=clock)
        self._logs_dir = None if logs_dir is None else Path(logs_dir)
        self.totals = StepTotals()
        self.flops = Flops()
        self.total_steps: int | None = None
        self.recorder = SessionRecorder(SessionPlace(None, self.facts, env={}), self.facts)
        self._log: StepLog | None = None
        self._sampler: GpuSampler | None = None
        self._metrics: dict[str, Any] = {}
        self._outputs = MetricOutputs()
        self._step_began = self._microstep_began = self._began
        self._paused_s = 0.0
        self._evaluations: list[dict[str, Any]] = []
        self._is_finished = False

    @property
    def session_id(self) -> str | None:
        """The id of the session, once it has started on this rank; else None."""
        return self.recorder.id

    @contained
    def start(self, model: Any = None, **facts: Any) -> None:
        """Open the session, after `init_process_group`; else the first `step` does. Later calls do nothing.

        Args:
            model: The torch module that is trained.
            **facts: The fields of `RunFacts`: `total_steps`, `configuration`, `model_name`, ...

        Raises:
            TypeError: a fact has no such name.
        """
        run = RunFacts(model=model, **facts)
        if self._log is not None:
            return
        self.facts = identify()  # a process group may have come since
        place = SessionPlace(self._logs_dir if self.is_collecting else None, self.facts)
        self.recorder = SessionRecorder(place, self.facts, before=self.recorder)
        self.totals = StepTotals(run.data_parallel_size or self.facts.world_size)
        self.total_steps, self.flops = run.total_steps, run.flops(self.facts)
        known = run.known(self.facts, self.settings.run_name)
        gpus = (
            watched_gpus(self.facts) if self.settings.gpu_snapshot_interval > 0 and self.is_collecting else []
        )
        known["gpus"] = [{"node": self.facts.host, **gpu.reading()} for gpu in gpus]
        if self.is_collecting:
            self.recorder.start(known)
            self._outputs.open(
                self.settings, self._files.folder if self._files else None, known["configuration"]
            )
        self._log = StepLog(self.recorder, self.facts, self.settings, self._rank_logger())
        self._log.opened(process_group())
        self._sampler = GpuSampler(gpus, self.settings.gpu_snapshot_interval, self._log.gpu)
        self._sampler.start()
        _finish_at_exit(self)
        if model is not None and self.settings.log_model_summary:
            self._log.model(model)
        self._write()
        self._step_began = self._microstep_began = self._clock()

    @contained
    def step(
        self,
        step: int | None = None,
        *,
        loss: Any = None,
        learning_rate: float | None = None,
        grad_norm: Any = None,
        samples: float | None = None,
        tokens: float | None = None,
        epoch: float | None = None,
        **metrics: Any,
    ) -> None:
        """End an optimizer step, and log it if due.

        Args:
            step: Its number; counted from 1 if left out.
            loss: A number, or a tensor, which is read only if the step is logged.
            learning_rate: Of the step.
            grad_norm: Like the loss.
            samples: Number that this rank has read for the step, of all its micro-steps.
            tokens: Like the samples.
            epoch: Epochs done, with a fraction.
            **metrics: Further numbers, kept with the newest metrics.
        """
        if self._log is None:
            self.start()
        if self._log is None or not self.is_collecting:
            return
        now = self._clock()
        duration = max(0.0, now - self._step_began - self._paused_s)
        self._step_began, self._microstep_began, self._paused_s = now, now, 0.0
        self._timers.add("steps", duration)
        last = self.totals.last
        stated = as_whole(step)
        number = (last.step + 1 if last else 1) if stated is None else stated
        loss, grad_norm = _detached(loss), _detached(grad_norm)
        rate, amounts = as_number(learning_rate), [as_amount(each) for each in (samples, tokens, epoch)]
        values = StepValues(number, duration, loss, rate, grad_norm, *amounts)
        self.totals.add(values)
        self._log.check(values)
        if metrics:
            self._metrics.update(metrics)
        if self.settings.is_logged(number):
            self.log_step()
        has_line = number % self.settings.performance_log_steps == 0
        if has_line:
            self._log.performance(self.totals)
        if self.recorder.is_due(at_line=has_line):
            self._write()

    def log_step(self, **values: Any) -> dict[str, float | None]:
        """Log the newest step now, at any interval; return the numbers of its line, empty without a step.

        Args:
            **values: Later values of the step: `loss`, `learning_rate`, `grad_norm`, `epoch`.

        Raises:
            AttributeError: a step has no such value.
        """
        last = self.totals.last
        if self._log is None or last is None:
            return {}
        for name, value in values.items():
            if not hasattr(last, name):
                raise AttributeError(f"a step has no {name!r}")
            if value is not None:
                setattr(last, name, as_number(value))
        line = self._log.step(self.totals, self.flops, self.total_steps, self._step_began - self._began)
        self._metrics.update({name: value for name, value in line.items() if value is not None})
        if self.settings.track_gpu_temperature:
            self.record_gpu_temperature()
        self._outputs.step(last.step, line, self.recorder, self.facts)
        return line

    def microstep(self) -> None:
        """End a micro-step of gradient accumulation: the timer `microsteps`."""
        now = self._clock()
        self._timers.add("microsteps", now - self._microstep_began)
        self._microstep_began = now

    @contextlib.contextmanager
    def epoch(self) -> Iterator[None]:
        """Time an epoch, and log its last step if `logging_strategy` is `epoch`."""
        with self.timer("epochs"):
            yield
        if self.settings.logging_strategy == "epoch":
            self.log_step()

    @contextlib.contextmanager
    def pause(self, name: str = "pause") -> Iterator[None]:
        """Time a block that is not part of a step (`evaluation`, `checkpoint`); the step time excludes it."""
        began = self._clock()
        try:
            yield
        finally:
            self.leave_out(name, self._clock() - began)

    def leave_out(self, name: str, seconds: float) -> None:
        """Exclude `seconds` since the last step from the next step time, and add them to the timer `name`."""
        self._paused_s += seconds
        self._timers.add(name, seconds)

    def add_writer(self, writer: MetricWriter) -> None:
        """Write the metrics of logged steps to this writer, too; see `TensorBoardWriter`."""
        self._outputs.add(writer)

    @contained
    def log_parameters(self, model: Any) -> None:
        """Write the distributions of a model's parameters to the writers: `Params/<name>`."""
        self._outputs.parameters(self.totals.last.step if self.totals.last else 0, model)

    def reset_timers(self) -> None:
        """Drop the times of all timers, for example those of warm-up steps."""
        self._timers.clear()

    def overall_mfu(self) -> float | None:
        """Return the MFU over the whole time since the start (0 to 1), evaluation included; None: unknown."""
        overall = self.totals.summary(self._clock() - self._began, self.flops)["mfu_overall"]
        return None if overall is None else float(overall)

    @contained
    def evaluation(self, results: Mapping[str, Any], step: int | None = None) -> None:
        """Log the numbers of an evaluation at `step` (default: the newest); the summary keeps 1,000."""
        numbers = {str(name): as_number(value) for name, value in results.items()}
        known = {name: value for name, value in numbers.items() if value is not None}
        if step is None and self.totals.last is not None:
            step = self.totals.last.step
        self._evaluations = [
            *self._evaluations[1 - MAX_EVALUATIONS :], {"step": step, "time": time.time(), "results": known},
        ]  # fmt: skip
        self.recorder.update({"evaluation": known, "evaluations": self._evaluations})
        if self._log is not None:
            self._log.evaluation(known)
        self._outputs.evaluation(step or 0, known)

    @contained
    def communication(
        self, operation: str, size_bytes: float | None = None, duration_s: float | None = None, count: int = 1
    ) -> None:
        """Count communication operations; the sums are logged with the next logged step."""
        size_bytes, duration_s = as_amount(size_bytes), as_amount(duration_s)
        if self._log is not None:
            self._log.communication(operation, size_bytes, duration_s, count)
        else:
            self.recorder.communication.add(operation, size_bytes, duration_s, count)

    @contained
    def warn(self, name: str, text: str) -> None:
        """Count a warning, and log the first of its class, later ones at most once a minute.

        Before the session starts it is only counted. `name`: the class, such as `perf.slow_step`; its first
        word selects the log.
        """
        if self._log is not None:
            self._log.warn(name, text)
        else:
            self.recorder.warnings.add(name, text)

    @contained
    def finish(self, status: str = "completed", error: str | None = None, *, is_alone: bool = False) -> None:
        """End the session; later calls do nothing.

        Args:
            status: `completed`, `failed` or `interrupted`.
            error: Why the session failed.
            is_alone: Other ranks may be gone. Else a completed session with `output_dir` and
                `collect_telemetry_for_all_ranks` is a collective.
        """
        if self._is_finished:
            return
        self._is_finished = True
        if error is not None and TIMED_OUT.search(error):
            self.warn("comm.timeout", f"communication timeout: {error}")
        if self._sampler is not None:
            self._sampler.stop()
        if self._log is not None:
            self._log.flush_communication()
            self.recorder.finish(status, self._known(), error)
        self._outputs.close()
        self.save(self._metrics)
        is_gathering = self.settings.collect_telemetry_for_all_ranks and self._files is not None
        if is_gathering and status == "completed" and not is_alone:
            self.save_all_ranks()

    def __enter__(self) -> TelemetryTracker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(*status_of(error))

    def _rank_logger(self) -> logging.Logger | None:
        if self._logger is None:
            logger = logging.getLogger(f"rank_{self.facts.rank}")
            self._logger = logger if logger.handlers else None
        return self._logger

    def _write(self) -> None:
        self.recorder.write(self._known())
        if self.totals.steps:
            self.save(self._metrics)

    def _known(self) -> dict[str, Any]:
        """Return the current values of this rank for the summary."""
        elapsed = self._clock() - self._began
        known = self.totals.summary(elapsed, self.flops)
        known.update(rank_state(self.facts, self.totals, self.get_summary()))
        return {**known, "duration_s": elapsed, "step_seconds": self.totals.all.seconds}


def _detached(value: Any) -> Any:
    """Return a tensor without its graph, which would keep the activations in memory; others unchanged."""
    detach = getattr(value, "detach", None)
    return detach() if callable(detach) else value


def _finish_at_exit(tracker: Any) -> None:
    """End a tracker's session when the interpreter exits, unless it has ended or the tracker is gone."""
    atexit.register(_finish, weakref.ref(tracker))


def _finish(reference: Any) -> None:
    tracker = reference()
    if tracker is not None and tracker.facts.pid == os.getpid():  # not in a process that was forked
        error = getattr(sys, "last_value", None)  # the interpreter leaves an uncaught exception there
        tracker.finish(*status_of(error), is_alone=True)
