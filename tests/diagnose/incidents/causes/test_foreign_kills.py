"""A kernel that several containers share kills a process of another one: no living rank is its victim."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL, rank

MASTER = "10.0.0.1:29500"


@pytest.mark.parametrize(("end", "named"), [(None, None), ("rank.killed", 0), ("gone", 0)])
def test_the_oom_kill_of_a_process_that_is_not_known_is_of_a_rank_that_was_killed(
    end: str | None, named: int | None
) -> None:
    """Each node runs one rank; what the kernel killed has a pid of another container."""
    reported = Watched(2)
    one, other = (rank(number, 900, 2, master=MASTER, start=WALL - 90) for number in range(2))
    reported.run("n1", one)
    reported.run("n2", other)
    reported.look(2.0)
    reported.find("n1", wire.KERNEL_LOG, "oom.host.kernel", 99.0, pid=6167)
    if end is None:
        reported.run("n1", one, at=110.0)
    else:
        reported.run("n1", at=100.0)
    if end not in (None, "gone"):
        reported.find("n1", "/runs/9/rank_0.log", end, 99.5, rank=0, rank_from="process", role="first")
    found = [each for each in reported.incidents(110.0).values() if each.code == "oom.host.kernel"]
    assert [(each.rank, each.node) for each in found] == [(named, "n1")]
