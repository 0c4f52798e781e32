"""The scripted incident as a person watching the demo would see it."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean

import pytest

from gpuwatch.link.demo import scenario
from gpuwatch.link.demo.links import SEED
from gpuwatch.link.demo.scenario import LOST_GPU, STRAGGLER, SimulatedReading, reading

EVERYONE = [(node, gpu) for node in range(16) for gpu in range(8)]


def minute(place: tuple[int, int], start: int, stop: int) -> list[SimulatedReading]:
    return [reading(SEED, *place, float(t)) for t in range(start, stop)]


def test_healthy_training_is_warm_busy_and_within_every_limit() -> None:
    for place in EVERYONE:
        readings = minute(place, 1, 20)
        assert all(each.temperature_c < scenario.SLOWDOWN_C - 6 for each in readings)
        assert all(250 < each.power_w < scenario.POWER_LIMIT_W for each in readings)
        assert all(each.utilization_pct > 95 and each.slowdown_pct == 0 for each in readings)
        assert 30 < mean(each.tensor_pct for each in readings) < 60
    steps = [reading(SEED, 0, 0, t / 4).tensor_pct for t in range(80)]
    assert max(steps) > 2 * min(steps), "the step rhythm shows"


def test_the_straggler_slows_itself_down_and_everyone_else_waits() -> None:
    hot, others = (
        minute(STRAGGLER, 38, 45),
        [minute(place, 38, 45) for place in EVERYONE if place != STRAGGLER],
    )
    assert all(each.temperature_c >= scenario.SLOWDOWN_C - 5 for each in hot)
    assert max(each.clock_mhz for each in hot) < 1300 < min(each.clock_mhz for row in others for each in row)
    assert all(each.slowdown_pct > 50 for each in hot)
    assert all(each.slowdown_pct == 0 for row in others for each in row)
    before = mean(each.tensor_pct for each in minute((0, 0), 1, 20))
    assert mean(each.tensor_pct for each in others[0]) < 0.8 * before
    assert scenario.step_seconds(44) > 1.4 * scenario.step_seconds(10)


def test_ranks_spin_after_the_fall_and_stop_after_the_timeout() -> None:
    assert {place for place in EVERYONE if reading(SEED, *place, 50).phase == "lost"} == {LOST_GPU}
    for place in EVERYONE:
        if place != LOST_GPU:
            spinning = reading(SEED, *place, 60)
            assert (spinning.utilization_pct, spinning.tensor_pct) == (100.0, 0.0)
            assert spinning.power_w < 0.25 * scenario.POWER_LIMIT_W
            stopped = reading(SEED, *place, 85)
            assert (stopped.phase, stopped.utilization_pct) == ("stopped", 0.0)
            assert stopped.memory_bytes < 1 << 30


def test_steps_done_is_the_integral_of_the_step_rate() -> None:
    for t in (5.0, 19.0, 21.0, 34.0, 36.0, 44.0):
        rate = (scenario.steps_done(t + 1e-4) - scenario.steps_done(t - 1e-4)) / 2e-4
        assert rate == pytest.approx(1 / scenario.step_seconds(t), rel=1e-3)


def test_shares_of_a_second_add_up() -> None:
    for t in (0.5, 3.3, 18.0, 27.7, 40.0):
        parts = [scenario.share_of_last_second(t, a, b) for a, b in ((0, 0.3), (0.3, 0.8), (0.8, 1.0))]
        assert sum(parts) == pytest.approx(1.0)
        assert min(parts) >= -1e-9


def test_temperature_has_no_jumps() -> None:
    for place in (STRAGGLER, LOST_GPU, (0, 0)):
        path = [scenario.temperature(SEED, *place, t / 10) for t in range(1500)]
        assert max(abs(b - a) for a, b in pairwise(path)) < 2.0
