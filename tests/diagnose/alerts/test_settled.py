"""An alert that was resolved since its line grew old stays so until the line is repeated."""

from __future__ import annotations

import pytest

from gpuwatch.wire import KERNEL_LOG
from tests.diagnose.watched_jobs import ONE, Watched
from tests.fleet.jobs.two_jobs import WALL, rank

HOURS_AGO = -3 * 3600.0


def _states(watched: Watched) -> set[tuple[str, str]]:
    return {(alert.code, alert.state) for alert in watched.book.alerts.values() if alert.kernel}


@pytest.mark.parametrize("again", ["ranks", "connected"])
def test_jobs_that_come_and_go_do_not_fire_it_again(again: str) -> None:
    watched = Watched()
    watched.find("n1", KERNEL_LOG, "oom.host.kernel", HOURS_AGO)
    for second in range(1, 20):
        watched.look(second)
    assert _states(watched) == {("oom.host.kernel", "resolved")}
    for second in range(20, 60):
        if again == "ranks" and second % 7 == 0:  # another job each time
            job = rank(0, 900 + second, 1, master=f"{ONE}{second}", start=WALL + second)
            watched.run("n1", job, at=second)
        if again == "connected" and second == 30:
            watched.ids = 0
            watched.find("n1", KERNEL_LOG, "oom.host.kernel", HOURS_AGO, backlog=True)
        watched.look(second)
        assert _states(watched) == {("oom.host.kernel", "resolved")}


def test_a_repeat_fires_it_again() -> None:
    watched = Watched()
    watched.find("n1", KERNEL_LOG, "oom.host.kernel", HOURS_AGO)
    for second in range(1, 20):
        watched.look(second)
    watched.ids = 0
    watched.find("n1", KERNEL_LOG, "oom.host.kernel", HOURS_AGO, last_at=WALL + 20, count=2)
    for second in range(20, 40):
        watched.look(second)
    assert _states(watched) == {("oom.host.kernel", "firing")}
