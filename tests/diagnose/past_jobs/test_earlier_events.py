"""A fault of a GPU before an ended job began is not of that job, with logs alone as with processes."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.wire.progress import PastStep
from tests.diagnose.watched_jobs import Watched, stated
from tests.fleet.jobs.two_jobs import WALL, rank

LOG = "/runs/g2/logs/rank_1.log"


def ended(reported: Watched, first_step_s: float | None, last_s: float = 980.0) -> None:
    """A job whose processes are gone: rank 1's log, found by a search."""
    file = wire.LogFile(LOG, source="found", ranks=[1], rank_from="path", last_at=WALL + last_s, size=900)
    reported.list_files("n1", file)
    if first_step_s is not None:
        steps = [PastStep(1.0, WALL + first_step_s), PastStep(59.0, WALL + last_s)]
        reported.report(
            "n1",
            wire.Progress(
                t=WALL + 1000.0, seq=4, file=LOG, rank=1, offset=800, at=WALL + last_s, dialect="x",
                backlog=True, timed=True, past=steps,
            ),
            at=1000.0,
        )  # fmt: skip
    reported.look(1000.0)
    reported.find("n1", LOG, "oom.cuda", last_s, rank=1, rank_from="path", backlog=True)


@pytest.mark.parametrize(
    ("xid_s", "first_step_s", "its"),
    [(400.0, 700.0, False), (680.0, 700.0, True), (800.0, 700.0, True), (-2000.0, None, False)],
)
def test_a_fault_is_of_an_ended_job_that_had_begun(
    xid_s: float, first_step_s: float | None, *, its: bool
) -> None:
    reported = Watched()
    ended(reported, first_step_s)
    reported.find("n1", wire.KERNEL_LOG, "gpu.xid.fell_off", xid_s, backlog=True)
    for second in range(4):
        reported.look(1000.0 + 5 * second)
    jobs = {each.job for each in reported.book.incidents for code, _ in stated(each) if "xid" in code}
    assert (jobs == {"g2/logs"}) is its


@pytest.mark.parametrize(
    ("code", "at_s", "its"),
    [
        ("oom.host.cgroup", -20_000.0, False),
        ("oom.host.cgroup", 700.0, False),
        ("oom.host.cgroup", 930.0, True),
        ("gpu.xid.fell_off", -20_000.0, False),
        ("gpu.xid.fell_off", -500.0, True),
    ],
)
def test_a_fault_long_before_is_not_of_a_job_of_which_no_rank_is_known(
    code: str, at_s: float, *, its: bool
) -> None:
    """The log of a launcher tells no begin."""
    reported = Watched()
    out = "/runs/g2/mpi.out"
    reported.list_files("n1", wire.LogFile(out, source="found", last_at=WALL + 980.0, size=900))
    reported.find("n1", out, "oom.cuda", 980.0, backlog=True)
    reported.find("n1", wire.KERNEL_LOG, code, at_s, backlog=True)
    for second in range(4):
        reported.look(1000.0 + 5 * second)
    jobs = {each.job for each in reported.book.incidents if code in dict(stated(each))}
    assert (jobs == {"g2"}) is its


@pytest.mark.parametrize(
    ("log", "superseded"), [("/runs/g2/logs/again.log", True), ("/runs/ut/r.log", False)]
)
def test_a_job_of_another_folder_is_no_restart_of_an_ended_one(log: str, *, superseded: bool) -> None:
    reported = Watched()
    ended(reported, 700.0)
    reported.run("n1", rank(0, 4000, 1, start=WALL + 990.0, logs=[log]), at=1001.0)
    for second in range(4):
        reported.look(1001.0 + 5 * second)
    (job,) = reported.book.ended_jobs
    assert job.superseded is superseded
    assert [each.over for each in reported.book.incidents if each.job == job.name] == [superseded]


def test_an_attempt_that_the_launcher_began_by_itself_settles_nothing() -> None:
    """It has made no step: the failure before it is what a person must see."""
    reported = Watched()
    ended(reported, 700.0)
    again = rank(1, 4001, 1, start=WALL + 990.0, logs=["/runs/g2/logs/again.log"])
    again = structs.replace(again, variables={"TORCHELASTIC_RESTART_COUNT": "1"})
    reported.run("n1", again, at=1001.0)
    for second in range(4):
        reported.look(1001.0 + 5 * second)
    (job,) = reported.book.ended_jobs
    assert [(each.rank, each.over) for each in reported.book.incidents if each.job == job.name] == [
        (1, False)
    ]


@pytest.mark.parametrize(("pid", "named"), [(1437, True), (1438, False)])
def test_a_fault_is_of_the_rank_whose_pid_the_launchers_table_names(pid: int, *, named: bool) -> None:
    """Two jobs ended on the node: the node alone does not say whose the fault is."""
    reported = Watched()
    ended(reported, 700.0)
    other = wire.LogFile("/runs/other/r.log", source="found", last_at=WALL + 960.0, size=900)
    reported.list_files("n1", wire.LogFile(LOG, source="found", ranks=[1], rank_from="path", size=900), other)
    fields: dict[str, str | int | float] = {"exitcode": -6, "pid": 1437}
    reported.find("n1", LOG, "rank.abort", 981.0, rank=1, rank_from="field", backlog=True, fields=fields)
    reported.find(
        "n1", wire.KERNEL_LOG, "gpu.xid.fell_off", 980.5, backlog=True, fields={"xid": 79, "pid": pid}
    )
    for second in range(4):
        reported.look(1000.0 + 5 * second)
    ranks = {alert.rank for alert in reported.book.alerts.values() if alert.code == "gpu.xid.fell_off"}
    assert ranks == ({1} if named else {None})
