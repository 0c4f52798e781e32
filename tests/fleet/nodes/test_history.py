"""Histories against a naive model, and their price."""

from __future__ import annotations

import gc
import math
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.fleet.nodes import history as history_module
from gpuwatch.fleet.nodes import rings
from gpuwatch.fleet.nodes.history import GPU_SERIES, GpuHistory, HostHistory, bytes_per_gpu
from gpuwatch.fleet.nodes.rings import BUCKET_S, FINE_S, HOLD_INTERVALS, Rings
from gpuwatch.wire import GpuFast, HostSample, Nic

GAPS = st.one_of(
    st.floats(0.05, 1.5),
    st.floats(0.9, 1.1),
    st.floats(1.6, 40.0),
    st.floats(100.0, 4000.0),
    st.just(90_000.0),
)
VALUES = st.one_of(st.none(), st.integers(0, 2000).map(float))


class Naive:
    """Second -> value for everything ever added, in a dict."""

    def __init__(self) -> None:
        self.seconds: dict[int, float] = {}
        self.at = -math.inf

    def add(self, at: float, value: float) -> None:
        second, last = math.floor(at), math.floor(self.at) if self.seconds else math.floor(at)
        bridge = at - self.at <= HOLD_INTERVALS
        for skipped in range(last + 1, second) if bridge else ():
            self.seconds[skipped] = value
        self.seconds[second] = value
        self.at = at

    def fine(self, seconds: int) -> list[float]:
        newest = math.floor(self.at)
        return [self.seconds.get(each, math.nan) for each in range(newest - seconds + 1, newest + 1)]

    def bucket(self, index: int) -> tuple[float, float]:
        inside = [
            self.seconds.get(each, math.nan) for each in range(index * BUCKET_S, (index + 1) * BUCKET_S)
        ]
        known = [value for value in inside if not math.isnan(value)]
        return (sum(known) / len(known), max(known)) if known else (math.nan, math.nan)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(GAPS, VALUES), min_size=1, max_size=60), st.floats(0.0, 1e6))
def test_rings_agree_with_the_naive_model(steps: list[tuple[float, float | None]], start: float) -> None:
    rings, naive, at = Rings(1), Naive(), start
    for gap, value in steps:
        at += gap
        rings.add(at, 1.0, [math.nan if value is None else value])
        naive.add(at, math.nan if value is None else value)
    np.testing.assert_allclose(rings.series(0, FINE_S, FINE_S), naive.fine(FINE_S), rtol=1e-3)
    newest = math.floor(at) // BUCKET_S
    buckets = [naive.bucket(index) for index in range(newest - 719, newest + 1)]
    for how, which in (("mean", 0), ("max", 1)):
        coarse = rings.series(0, 720 * BUCKET_S, 720, how="mean" if how == "mean" else "max")
        np.testing.assert_allclose(coarse, [bucket[which] for bucket in buckets], rtol=2e-3)


def filled(seconds: int, value: float = 50.0) -> GpuHistory:
    history = GpuHistory()
    for second in range(seconds):
        history.add(second + 0.5, GpuFast(t=0.0, utilization_pct=value, power_w=float(second % 700)))
    return history


def test_a_missed_tick_is_a_gap_and_jitter_is_not() -> None:
    history = GpuHistory()
    for at in (0.99, 2.01, 2.99, 3.98, 5.02, 9.0):
        history.add(at, GpuFast(t=0.0, utilization_pct=10.0))
    values = history.series("util", 10, 10, now=9.5)
    assert [bool(np.isnan(value)) for value in values] == [False] * 6 + [True] * 3 + [False]


def test_a_slow_interval_is_no_gap() -> None:
    history = GpuHistory()
    for at in range(0, 60, 5):
        history.add(float(at), GpuFast(t=0.0, utilization_pct=10.0), interval_s=5.0)
    assert not np.isnan(history.series("util", 55, 55)).any()


def test_a_silent_node_ages_on_the_right() -> None:
    history = filled(100)
    fresh, silent = history.series("util", 60, 60, now=100.2), history.series("util", 60, 60, now=130.2)
    assert not np.isnan(fresh).any(), "the second that has just begun is not a gap yet"
    assert np.isnan(silent[-30:]).all()
    assert not np.isnan(silent[:-31]).any()


def test_unknown_is_nan_and_a_series_that_never_was_stays_nan() -> None:
    history = filled(10)
    assert np.isnan(history.series("tensor", 10, 5)).all()
    assert np.isnan(GpuHistory().series("util", 60, 7)).all()
    with pytest.raises(ValueError, match="no series 'tmep'"):
        history.series("tmep", 10, 5)


def test_means_and_maxima_of_a_part() -> None:
    history = filled(120)
    power = [float(each) for each in range(60, 120)]
    np.testing.assert_allclose(
        history.series("power", 60, 6), [np.mean(power[i : i + 10]) for i in range(0, 60, 10)], rtol=1e-3
    )
    np.testing.assert_allclose(history.series("power", 60, 6, how="max"), [69, 79, 89, 99, 109, 119])
    assert len(history.series("power", 10, 40)) == 40


def test_a_line_moves_in_whole_parts() -> None:
    history = filled(205)
    before = history.series("power", 100, 20)
    history.add(205.5, GpuFast(t=0.0, utilization_pct=50.0, power_w=205.0))
    after = history.series("power", 100, 20)
    np.testing.assert_array_equal(before[1:], after[:-1])
    history.add(206.5, GpuFast(t=0.0, utilization_pct=50.0, power_w=206.0))
    np.testing.assert_array_equal(after[:-1], history.series("power", 100, 20)[:-1])


def test_rates_survive_the_small_type() -> None:
    history = GpuHistory()
    history.add(1.0, GpuFast(t=0.0, nvlink_rx_bps=4.5e11, nvlink_tx_bps=4.5e11, pcie_rx_bps=1.5e6))
    assert history.series("nvlink", 1, 1)[0] == pytest.approx(9e11, rel=1e-3)
    assert history.series("pcie", 1, 1)[0] == pytest.approx(1.5e6, rel=1e-3)
    history.add(2.0, GpuFast(t=0.0, power_w=1e12))
    assert history.series("power", 1, 1)[0] > 60_000, "an absurd value is clipped, not fatal"


def test_a_day_and_a_half_stays_within_the_stated_bytes() -> None:
    history = GpuHistory()
    assert history.nbytes() == 0
    sample = GpuFast(t=0.0, utilization_pct=50.0)
    gc.collect()
    tracemalloc.start()
    for second in range(0, 130_000, 50):
        history.add(float(second), sample, interval_s=50.0)
        if second == 50:
            assert history.nbytes() < 0.06 * bytes_per_gpu(), "only two minutes are allocated"
        if second == 3_600:
            assert history.nbytes() < 0.5 * bytes_per_gpu(), "after an hour the day is not allocated"
    gc.collect()
    made_here = [tracemalloc.Filter(True, rings.__file__), tracemalloc.Filter(True, history_module.__file__)]
    traced = tracemalloc.take_snapshot().filter_traces(made_here)  # other tests' threads allocate, too
    tracemalloc.stop()
    held = sum(each.size for each in traced.statistics("filename"))
    assert history.nbytes() == bytes_per_gpu() == 42_120
    assert held < 1.1 * bytes_per_gpu()
    day = history.series("util", 86_400, 100, how="max")
    assert not np.isnan(day[1:]).any()
    assert set(day[1:]) == {50.0}


def test_a_host_has_its_own_series() -> None:
    history = HostHistory()
    nics = [Nic("a", rx_bps=3e9, tx_bps=1e9), Nic("b", rx_bps=1e9)]
    history.add(1.0, HostSample(t=0.0, cpu_pct=12.0, memory_total_bytes=200, memory_used_bytes=50, nics=nics))
    got = [float(history.series(name, 1, 1)[0]) for name in ("cpu", "memory", "rx", "tx")]
    assert got == pytest.approx([12.0, 25.0, 4e9, 1e9], rel=1e-3)


def test_every_series_of_a_metric_exists() -> None:
    """Document 004, line 832."""
    from gpuwatch.fleet.nodes.metrics import METRICS  # noqa: PLC0415  the registry names series of this module

    named = {metric.series for metric in METRICS.values() if metric.series}
    assert named == set(GPU_SERIES)


def test_a_moment_of_the_past_sees_nothing_newer() -> None:
    history = filled(100)
    before = history.series("power", 20, 20, now=60.9)
    assert float(before[-1]) == 60.0
    history.add(100.5, GpuFast(t=0.0, utilization_pct=50.0, power_w=3.0))
    np.testing.assert_array_equal(history.series("power", 20, 20, now=60.9), before)


def test_means_over_the_last_seconds_leave_out_what_is_mostly_unknown() -> None:
    history = GpuHistory()
    assert history.means(30, 100.0) == {}
    for second in range(60):
        power = 600.0 if second >= 50 else None
        history.add(
            100.0 + second, GpuFast(t=0.0, utilization_pct=40.0 if second < 45 else 100.0, power_w=power)
        )
    assert history.means(30, 159.5) == {"util": 70.0}
    assert history.means(10, 159.5) == {"util": 100.0, "power": 600.0}
    assert history.means(30, 170.0)["util"] == pytest.approx(87.4, abs=0.1)  # of these 30 s 19 are known
    assert history.means(30, 200.0) == {}


def test_the_mean_of_one_series_is_that_of_all() -> None:
    """Also where the ring has gone round, with gaps, and after the values have stopped."""
    history, dice = GpuHistory(), random.Random(7)
    assert history.mean("util", 30, 0.0) is None
    for second in range(0, 2_000, 1):
        if second % 400 < 300:
            known = None if dice.random() < 0.3 else dice.randrange(100)
            history.add(float(second), GpuFast(t=0.0, utilization_pct=known, pcie_rx_bps=1e9))
        for seconds in (1, 30, 180) if second % 37 == 0 else ():
            means = history.means(seconds, float(second))
            for name in ("util", "pcie"):
                one = history.mean(name, seconds, float(second))
                assert (one is None) == (name not in means)
                assert one is None or one == pytest.approx(means[name], rel=1e-5)
