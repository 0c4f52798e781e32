"""Healthy days of 64 ranks, looked at around everything that happens in them, give no alarm."""

from __future__ import annotations

import pytest

from tests.diagnose.healthy import EVENTS, HealthyWeek
from tests.diagnose.simulated_jobs import DAY_S


def test_two_healthy_days_give_no_alarm() -> None:
    days = HealthyWeek(seed=7, every_s=57_600.0, whole=False)
    days.run(2 * DAY_S)
    assert days.alarms == {}
    assert len(days.happened) >= 4
    assert days.ticks > 100


@pytest.mark.long
def test_a_healthy_week_gives_no_alarm() -> None:
    week = HealthyWeek(seed=7, every_s=57_600.0, whole=False)
    week.run()
    assert week.alarms == {}
    assert set(week.happened) == set(EVENTS)
    assert week.ticks > 500
