"""A launcher that a signal ended leads what its ranks and the other nodes lose with it, and nothing else."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL, rank


def two_nodes() -> Watched:
    """Ranks 0-1 on n1 and 2-3 on n2, started by launchers 900 and 800."""
    reported = Watched(2)
    for node, pids in (("n1", (900, 901)), ("n2", (802, 803))):
        ranks = [rank(pid % 10, pid, 4, master="n1:29500", start=WALL - 90) for pid in pids]
        reported.run(node, *ranks)
        reported.list_files(node, *(wire.LogFile(each.logs[0], pids=[each.pid]) for each in ranks))
    reported.look(2.0)
    return reported


def ended(reported: Watched, code: int, pid: int = 900) -> None:
    event = wire.Event(t=WALL + 100.0, seq=9, event="launcher_ended", title="x", code=code, pid=pid)
    reported.report("n1", event, at=100.0)
    reported.look(101.0)


@pytest.mark.parametrize("code", [-9, -11])
def test_it_leads_the_lost_connections_of_both_nodes(code: int) -> None:
    reported = two_nodes()
    ended(reported, code)
    for node, pid, number in (("n1", 900, 1), ("n2", 800, 2), ("n2", 800, 3)):
        file = f"/runs/{pid // 100}/rank_{number}.log"
        reported.find(node, file, "peer.connection_lost", 100.5, rank=number, rank_from="process")
    for second in range(4):
        reported.look(102.0 + 5 * second)
    (incident,) = reported.book.incidents
    assert (incident.code, incident.node, incident.rank) == ("launcher_killed", "n1", None)


@pytest.mark.parametrize(("code", "pid"), [(1, 900), (-15, 900), (-2, 900), (-9, 4711)])
def test_other_ends_and_other_processes_are_no_incident(code: int, pid: int) -> None:
    reported = two_nodes()
    ended(reported, code, pid)
    assert not reported.incidents(110.0)


def test_it_closes_when_the_ranks_train_on() -> None:
    reported = two_nodes()
    ended(reported, -9)
    (incident,) = reported.book.incidents
    assert not incident.over
    for second in range(110, 150, 5):
        for step, file in enumerate(("/runs/9/rank_0.log", "/runs/8/rank_2.log")):
            progress = wire.Progress(
                t=WALL + second, seq=4, file=file, rank=2 * step, job=incident.job, offset=10 * second,
                at=WALL + second, timed=True, dialect="x", fields={"step": second},
            )  # fmt: skip
            reported.report(("n1", "n2")[step], progress, at=float(second))
        reported.look(float(second))
    assert [each.over for each in reported.book.incidents] == [True]
