"""A launcher that never starts a rank: its error is of none of the jobs that run on its node."""

from __future__ import annotations

from gpuwatch import wire
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL, rank


def test_its_error_is_at_no_moment_that_of_the_job_beside_it() -> None:
    """Its log is listed and read before the next list of processes."""
    reported = Watched()
    ranks = [rank(number, 900 + number, 2, start=WALL - 90, job="holds") for number in range(2)]
    reported.run("n1", *ranks, at=10.0)
    logs = [wire.LogFile(each.logs[0], pids=[each.pid]) for each in ranks]
    reported.list_files("n1", *logs)
    for second in range(11, 14):
        reported.look(float(second))
    reported.list_files("n1", *logs, wire.LogFile("/runs/new/launch.out", pids=[77]))
    reported.find("n1", "/runs/new/launch.out", "oom.cuda", 13.5)
    seen = set()
    for tenth in range(140, 300, 2):
        reported.look(tenth / 10)
        seen |= {(each.job, each.rank) for each in reported.book.incidents}
    assert seen == {(None, None)}
