"""The metric writers of a tracker: opened by its settings, and dropped if they fail."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

from ..base.ranks import RankFacts
from ..base.settings import TelemetrySettings
from ..session.recorder import SessionRecorder
from ..writers.metric_tags import MetricWriter, tagged, tagged_evaluation

_LOG = logging.getLogger("gpuwatch.telemetry")


class MetricOutputs:
    """Passes the numbers of logged steps to TensorBoard, W&B and writers that a script adds.

    A writer that raises is logged and no longer used, and not closed: the training continues.
    """

    def __init__(self) -> None:
        self._writers: list[MetricWriter] = []

    def add(self, writer: MetricWriter) -> None:
        """Add a writer."""
        self._writers.append(writer)

    def open(
        self, settings: TelemetrySettings, output_dir: Path | None, configuration: Mapping[str, Any]
    ) -> None:
        """Open the writers that the settings request.

        They write below the output folder, else in `runs` and `wandb` of the working folder.
        """
        if settings.enable_tensorboard:
            self._open("TensorBoard", lambda: _tensorboard(output_dir))
        if settings.enable_wandb:
            self._open("W&B", lambda: _wandb(settings.run_name, output_dir, configuration))

    def step(self, step: int, line: Mapping[str, Any], recorder: SessionRecorder, facts: RankFacts) -> None:
        """Write a logged step, with the newest reading of this rank's GPU."""
        if not self._writers:
            return
        readings = list(recorder.gpus.newest.values())
        gpu = readings[facts.local_rank if facts.local_rank < len(readings) else 0] if readings else {}
        self._each(lambda writer: writer.scalars(step, tagged({**line, **gpu})))

    def evaluation(self, step: int, results: Mapping[str, float]) -> None:
        """Write the results of an evaluation to every metric writer."""
        self._each(lambda writer: writer.scalars(step, tagged_evaluation(results)))

    def parameters(self, step: int, model: Any) -> None:
        """Write histograms of the parameters."""
        self._each(lambda writer: writer.parameters(step, model))

    def close(self) -> None:
        """Close and remove all writers."""
        self._each(lambda writer: writer.close())
        self._writers.clear()

    def _open(self, name: str, make: Callable[[], MetricWriter]) -> None:
        try:
            self._writers.append(make())
        except Exception as error:  # no package, no account, no disk: each library has its own errors
            _LOG.warning("metrics are not sent to %s: %s: %s", name, type(error).__name__, error)

    def _each(self, write: Callable[[MetricWriter], object]) -> None:
        for writer in list(self._writers):
            try:
                write(writer)
            except Exception as error:  # noqa: PERF203 - each writer fails by itself
                _LOG.warning("%s failed and is left out: %s", type(writer).__name__, error)
                self._writers.remove(writer)


def _tensorboard(output_dir: Path | None) -> MetricWriter:
    from ..writers.tensorboard import TensorBoardWriter  # noqa: PLC0415 - optional

    return TensorBoardWriter("runs" if output_dir is None else output_dir / "tensorboard")


def _wandb(run_name: str | None, output_dir: Path | None, configuration: Mapping[str, Any]) -> MetricWriter:
    from ..writers.wandb import WandbWriter  # noqa: PLC0415 - optional

    if output_dir is not None:
        output_dir.mkdir(parents=True, exist_ok=True)
    folder = None if output_dir is None else str(output_dir)
    return WandbWriter(run_name, configuration=configuration, folder=folder)
