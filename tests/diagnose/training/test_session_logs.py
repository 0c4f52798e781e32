"""The three logs of a session as one writer: communication share, its curve, its alert."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from gpuwatch import wire
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.diagnose.training.training_watch import TrainingWatch
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.report.once.jobs import job_row
from gpuwatch.telemetry.session.lines import metrics_line, step_metrics
from gpuwatch.tui.training.curves import reported
from tests.diagnose.training.reported_job import NOW, WALL, Job
from tests.packs import dialects

SESSION = "/logs/training_20241206_143022/training_20241206_143022"
WORKER = "2024-12-06 14:30:45 | INFO     | MainProcess  | "


def logged(step: int, duration: str) -> dict[str, str]:
    """Ending of a log -> what it says of a step, in the words of document 002."""
    return {
        "main": f"Step {step:4}/1000 ( 5.0%) | Loss: 2.1234 | LR: 1.50e-04 | Speed: 2.5 steps/s"
        " | ETA: 6.3min\n"
        "  └─ Metrics: step_duration: 0.400, samples_per_second: 5.0\n",
        "multigpu": f"{WORKER}Multi-GPU Step {step} | Processes: 2 | Local rank: 0 | Process index: 0\n"
        f"{WORKER}Communication | gradient_sync | Rank 0 | {duration} | Bandwidth: 3701.46MB/s\n",
        "performance": f"{WORKER}Performance | Step {step} | Avg step time: 0.380s"
        " | Throughput: 10.5 samples/s | Total batch size: 4\n",
    }


class SessionJob(Job):
    """A job whose rank 0 writes the logs of a session."""

    def __init__(self) -> None:
        super().__init__(nodes=1)
        self.scanners = {
            kind: Scanner(dialects(), f"{SESSION}_{kind}.log", itertools.count(1).__next__, None)
            for kind in ("main", "multigpu", "performance")
        }

    def log(self, texts: dict[str, str], at: float) -> None:
        for kind, text in texts.items():
            self.scanners[kind].feed(text.encode(), 0, WALL)
            self.scanners[kind].end()
            for frame in self.scanners[kind].progress():
                known = {"kind": "progress", "t": WALL, "seq": 1, "job": "77", **frame, "at": WALL}
                self.put("n0", msgspec.convert(known, wire.Progress), at)


def test_the_share_of_communication_is_that_of_the_documented_lines() -> None:
    """Document 002, lines 37, 38, 52, 53 and 59; document 004, lines 705 and 830."""
    job = SessionJob()
    for step in range(20, 400, 20):
        job.log(logged(step, "Size: 45.67MB | Duration: 312.00ms"), NOW - 400 + step)
    made = job.facts()
    row: dict[str, Any] = job_row(made, NOW, WALL)
    assert (row["step"], row["total_steps"], row["loss"], row["reported_by_rank"]) == (380, 1000, 2.1234, 0)
    assert row["communication_share"] == pytest.approx(0.78)
    assert made.speaker is not None
    curves = {curve.name: values for curve, values in reported(made.speaker.curve())}
    assert curves["communication %"] == pytest.approx([78.0] * 19)


def test_a_sum_over_several_operations_is_taken_as_one_of_them() -> None:
    """Document 002, line 53, as the library writes it."""
    job = SessionJob()
    job.log(logged(20, "Count: 20 | Size: 913.40MB | Duration: 2000.00ms"), NOW)
    assert job_row(job.facts(), NOW, WALL)["communication_share"] == pytest.approx(0.25)


def test_the_numbers_of_the_library_are_those_of_its_main_log() -> None:
    """Document 001, lines 296 and 297, and document 002, line 53."""
    job = SessionJob()
    values = {"step_time_s": 0.4, "mfu": 0.41, "mfu_overall": 0.35, "communication_s": 0.1, "loss": 2.5}
    texts = logged(20, "Count: 20 | Size: 913.40MB | Duration: 2000.00ms")
    texts["main"] = texts["main"].splitlines()[0] + "\n" + metrics_line(step_metrics(values, 8.0)) + "\n"
    job.log(texts, NOW)
    row = job_row(job.facts(), NOW, WALL)
    assert (row["mfu_step"], row["mfu_overall"], row["communication_share"]) == (0.41, 0.35, 0.25)


def test_a_run_that_waits_for_its_communication_is_an_alert() -> None:
    """Document 002, line 53, and document 004, line 852: over 30 % of the time."""
    job, watch = SessionJob(), TrainingWatch(Thresholds())
    for second in range(0, 120, 2):
        job.log(logged(second + 1, "Size: 45.67MB | Duration: 312.00ms"), NOW + second)
        watch.go(job.fleet, NOW + second, WALL + second)
    codes = {alert.code for alert in watch.alerts.values()}
    assert codes == {"train.communication_bound"}
