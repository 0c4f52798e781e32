"""A healthy week of 64 ranks, looked at around everything that happens in it, gives no alarm."""

from __future__ import annotations

from tests.diagnose.healthy import EVENTS, HealthyWeek


def test_a_healthy_week_gives_no_alarm() -> None:
    week = HealthyWeek(seed=7, every_s=57_600.0, whole=False)
    week.run()
    assert week.alarms == {}
    assert set(week.happened) == set(EVENTS)
    assert week.ticks > 500
