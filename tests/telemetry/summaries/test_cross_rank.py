"""Statistics of statistics: document 001, lines 145 to 147."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.telemetry.summaries.cross_rank import cross_rank_statistics, default_names
from gpuwatch.telemetry.summaries.files import timer_metrics


def summary(forward: float | None, heat: float | None) -> dict[str, Any]:
    timers = {} if forward is None else {"forward": {"count": 2, "mean": forward, "max": 2 * forward}}
    return {
        "total_time": 10.0, "timers": timers, "cuda_timers": {},
        "gpu_temperature": {} if heat is None else {"mean": heat, "max": heat + 5, "median": heat},
    }  # fmt: skip


SUMMARIES = [summary(1.0, 60.0), summary(None, None), summary(4.0, 71.0)]


def test_a_rank_that_lacks_a_number_shifts_no_index() -> None:
    found = cross_rank_statistics(SUMMARIES, {"timers": {"forward": {"mean"}}})
    forward = found["timers"]["forward"]["mean"]
    assert forward == {
        "count": 2, "mean": 2.5, "median": 2.5, "std_dev": pytest.approx(2.1213, rel=1e-3), "min": 1.0,
        "max": 4.0, "min_index": 0, "max_index": 2,
    }  # fmt: skip


def test_names_of_one_two_and_three_levels() -> None:
    """Document 001, line 146."""
    assert cross_rank_statistics(SUMMARIES, {"total_time"})["total_time"]["mean"] == 10.0
    heat = cross_rank_statistics(SUMMARIES, {"gpu_temperature": ["max", "median"], "total_time": None})
    assert (heat["gpu_temperature"]["max"]["max"], heat["total_time"]["count"]) == (76.0, 3)
    assert cross_rank_statistics(SUMMARIES, {"nothing": {"here"}}) == {}


def test_by_default_all_timers_and_the_temperature() -> None:
    """Document 001, line 145."""
    found = cross_rank_statistics(SUMMARIES, default_names(SUMMARIES))
    assert list(found["timers"]["forward"]) == ["mean", "max"]
    assert list(found["gpu_temperature"]) == ["max", "mean", "median"]


def test_timers_as_metrics_of_a_logger() -> None:
    """Document 001, lines 328 to 330.

    Document 001, line 326.
    """
    metrics = timer_metrics({**summary(0.453, 70.2)}, 0)
    assert (metrics["rank000_forward_mean"], metrics["rank000_gpu_temperature_max"]) == (0.453, 75.2)
