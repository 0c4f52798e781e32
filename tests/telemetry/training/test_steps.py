"""Rates, MFU and the numbers of a summary from steps: document 001, lines 283 to 297."""

from __future__ import annotations

import math

import pytest

from gpuwatch.telemetry.base.settings import TelemetrySettings
from gpuwatch.telemetry.training.flops import transformer_flops_per_token
from gpuwatch.telemetry.training.steps import Flops, StepTotals, StepValues


def totals_of(count: int, seconds: float, data_parallel: int = 1) -> StepTotals:
    totals = StepTotals(data_parallel)
    for step in range(1, count + 1):
        totals.add(StepValues(step, seconds, samples=4, tokens=1000, epoch=step / 10))
    return totals


def test_the_mfu_of_steps_and_that_of_the_whole_run_are_two_numbers() -> None:
    """Evaluation and start take half of the time."""
    totals = totals_of(10, 0.5, data_parallel=2)
    flops = Flops(per_token=6e9, peak_per_gpu=1e14, ranks=2)
    summary = totals.summary(10.0, flops)
    assert summary["mfu_step"] == pytest.approx(4000 * 6e9 / 2e14)
    assert summary["mfu_overall"] == pytest.approx(summary["mfu_step"] / 2)
    assert (summary["steps_per_s"], summary["steady_steps_per_s"]) == (1.0, 2.0)
    assert (summary["tokens_per_s"], summary["samples_per_s"], summary["epochs"]) == (2000, 8, 1.0)


def test_without_a_peak_there_is_no_mfu() -> None:
    assert totals_of(3, 0.5).summary(2.0, Flops(6e9, None))["mfu_step"] is None
    empty = StepTotals().summary(0.0, Flops())
    assert (empty["steps"], empty["steps_per_s"], empty["step_time_s"]["p99"]) == (0, None, None)


def test_the_arithmetic_of_a_token() -> None:
    assert transformer_flops_per_token(7e9) == 42e9
    assert transformer_flops_per_token(7e9, 32, 4096, 2048) == 42e9 + 12 * 32 * 4096 * 2048


def test_a_loss_that_is_no_number_is_neither_final_nor_best() -> None:
    totals = StepTotals()
    for loss in (3.0, 2.0, 2.5, math.nan, None, math.inf):
        totals.add(StepValues(0 if totals.last is None else totals.last.step + 1, 0.5))
        totals.take_loss(loss)
    assert (totals.final_loss, totals.best_loss, totals.non_finite_loss_step) == (None, 2.0, 3)
    totals.take_loss(4.0)
    assert (totals.final_loss, totals.best_loss, totals.non_finite_loss_step) == (4.0, 2.0, None)


def test_the_eta_follows_the_newest_steps() -> None:
    totals = totals_of(10, 0.5)
    assert totals.eta_s(110) == 50.0
    assert totals.eta_s(None) is None
    assert totals.eta_s(5) == 0.0


@pytest.mark.parametrize(
    ("settings", "logged"),
    [
        ({}, [50, 100]),
        ({"logging_steps": 40}, [40, 80]),
        ({"log_interval_steps": 30, "logging_first_step": True}, [1, 30, 60, 90]),
        ({"logging_strategy": "no"}, []),
    ],
)
def test_which_steps_are_logged(settings: dict[str, int], logged: list[int]) -> None:
    """Document 001, lines 37 to 39, document 002, line 228."""
    chosen = TelemetrySettings.from_mapping(settings)
    assert [step for step in range(1, 101) if chosen.is_logged(step)] == logged


def test_settings_are_found_in_a_training_configuration() -> None:
    """Document 001, lines 151 to 160.

    Document 001, line 313.
    """
    configuration = {
        "model": {"model_max_length": 2048},
        "training": {
            "telemetry": {"collect_telemetry_for_all_ranks": True, "track_gpu_temperature": True},
            "include_performance_metrics": True, "logging_steps": 25, "output_dir": "output/my_run",
        },
    }  # fmt: skip
    settings = TelemetrySettings.from_mapping(configuration)
    assert (settings.track_gpu_temperature, settings.include_performance_metrics) == (True, True)
    assert (settings.interval, settings.output_dir) == (25, "output/my_run")
    assert settings.collect_telemetry_for_all_ranks and settings.world_process_zero_only is None


@pytest.mark.parametrize("name", ["logging_steps", "log_interval_steps", "performance_log_steps"])
def test_an_impossible_setting_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        TelemetrySettings.from_mapping({name: 0})


def test_a_host_that_queues_its_steps_has_no_steady_rate() -> None:
    """As on a GPU: nine steps of ten are queued in 4 ms, the tenth waits for the device."""
    totals = StepTotals()
    for step in range(1, 101):
        totals.add(StepValues(step, 0.7 if step % 10 == 0 else 0.004, samples=4))
    summary = totals.summary(7.4, Flops())
    assert (summary["steady_steps_per_s"], summary["steps_per_s"]) == (None, pytest.approx(100 / 7.4))
