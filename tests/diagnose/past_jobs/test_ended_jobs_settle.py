"""An ended job is judged once: two clocks that are read one after the other are no news about it."""

from __future__ import annotations

from gpuwatch import wire
from gpuwatch.clock import SteadyOffset
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.hosts.plan import Thresholds
from tests.diagnose.finding import PACK
from tests.fleet.jobs.two_jobs import WALL, Several

LOG = "/srv/night/logs/rank0.log"
READ_APART_S = (0.0, 0.0023, 0.0007, 0.0311, 0.0004)
"""Seconds between the readings of the monotonic and the wall clock, on a busy machine."""


def test_the_book_is_not_behind_for_ever_while_the_clocks_are_read_apart() -> None:
    reported = Several()
    found = wire.LogFile(
        LOG,
        source="found",
        last_at=WALL - 60,
        ranks=[0],
        size=100,
        searched_to=100,
        last_lines=["step 40/1000"],
    )
    reported.list_files("n1", found)
    for step in (39, 40):
        reported.step("n1", LOG, step)
    book, behind = AlertBook(PACK, Thresholds()), []
    for turn in range(60):
        now = 1.0 + 0.1 * turn
        book.update(reported.fleet, now, WALL + now + READ_APART_S[turn % len(READ_APART_S)])
        behind.append(book.behind)
    assert [job.end.step for job in book.ended_jobs] == [40]
    assert behind[-40:].count(True) < 5


def test_a_wall_clock_that_was_set_is_followed() -> None:
    offset = SteadyOffset()
    readings = [(10.0, 110.02), (11.0, 111.0), (12.0, 112.15), (13.0, 173.0), (14.0, 174.1), (15.0, 115.0)]
    assert [offset.wall(*each) for each in readings] == [110.02, 111.0, 112.0, 173.0, 174.0, 115.0]
