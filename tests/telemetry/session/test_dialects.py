"""Every line that the library logs is read by gpuwatch's progress dialects, also in a rank's log."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.telemetry.session import lines
from gpuwatch.telemetry.tracing.profiling import TimeBreakdown
from tests.agent.logs.scan_lines import NOW
from tests.packs import dialects

STEP = {
    "step": 50, "total_steps": 1000, "loss": 2.125, "learning_rate": 1.5e-4, "steps_per_s": 2.5,
    "eta_s": 378.0, "step_time_s": 0.4, "samples_per_s": 5.0, "tokens_per_s": 5120.0, "grad_norm": 1.25,
    "mfu": 0.41, "epoch": 0.5,
}  # fmt: skip
RANK_LOG = "2031-01-02 03:04:05,006 - Rank 3 - rank_3 - INFO - "
WORKER = "2031-01-02 03:04:05 | INFO     | MainProcess  | "


def fields(text: str) -> dict[str, Any]:
    scanner = Scanner(dialects(), "/logs/a.log", itertools.count(1).__next__, None)
    scanner.feed(f"{text}\n".encode(), 0, NOW)
    scanner.end()
    found = scanner.progress()
    merged: dict[str, Any] = {}
    for each in found:
        merged.update({name: value for name, value in each["fields"].items() if value is not None})
        merged.update({name: each[name] for name in ("rank", "phases_s") if each.get(name)})
    return merged


def metrics() -> str:
    return lines.metrics_line(lines.step_metrics(STEP, 20.0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            lines.step_line(STEP),
            {"step": 50, "total_steps": 1000, "loss": 2.125, "lr": 1.5e-4, "step_time_s": 0.4},
        ),
        (
            RANK_LOG + lines.rank_line(STEP),
            {"step": 50, "loss": 2.125, "rank": 3, "tokens_per_s": 5120.0, "grad_norm": 1.25, "mfu": 0.41},
        ),
        (
            lines.step_line({"step": 7, "loss": 2.5, "steps_per_s": 0.5}),
            {"step": 7, "loss": 2.5, "step_time_s": 2.0},
        ),
        (
            lines.step_line(STEP) + "\n" + metrics(),
            {"samples_per_s": 5.0, "tokens_per_s": 5120.0, "grad_norm": 1.25, "mfu": 0.41, "loss": 2.125},
        ),
        (
            WORKER + lines.performance_line(100, 0.38, 10.5, 4),
            {"step": 100, "step_time_s": 0.38, "samples_per_s": 10.5},
        ),
    ],
)
def test_a_line_is_read(text: str, expected: dict[str, float]) -> None:
    found = fields(text)
    assert {name: found.get(name) for name in expected} == pytest.approx(expected)


def test_a_profile_gives_the_share_of_communication() -> None:
    found = fields(WORKER + TimeBreakdown(12.34, 3.21, 1.0).line(10))
    assert found["step"] == 10
    assert found["phases_s"] == pytest.approx({"computation": 0.01234, "communication": 0.00321})


def test_an_evaluation_is_no_training_loss() -> None:
    assert "loss" not in fields("\n".join(lines.evaluation_block({"eval_loss": 1.8765})))


@pytest.mark.parametrize(
    "text", [lines.gpu_line({"index": 0, "utilization_pct": 85.2, "power_w": 300.0}, "gpu-003")]
)
def test_a_reading_of_a_gpu_is_no_progress(text: str) -> None:
    assert fields(WORKER + text) == {}
