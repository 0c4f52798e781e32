"""Which rank a log of torchrun is of, where the ranks' own logs show how the nodes number them."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL, rank


def found(path: str, rank: int | None = None, local: int | None = None) -> wire.LogFile:
    ranks = [] if rank is None else [rank]
    return wire.LogFile(path, source="found", last_at=WALL + 90.0, ranks=ranks, local_rank=local, size=9)


@pytest.mark.parametrize(
    ("nodes", "run", "named"),
    [
        ({"n1": (0, 1), "n2": (2, 3)}, "/srv/rd/tr/rd_15ki3reu/attempt_0/1/stderr.log", 3),
        ({"n2": (0, 1)}, "/tmp/torchelastic_c7npr7zm/rd_6679teyr/attempt_0/1/error.json", 1),
        ({"n1": (0, 1), "n2": (2,)}, "/srv/rd/tr/rd_15ki3reu/attempt_0/1/stderr.log", None),
        ({"n1": (0, 2), "n2": (1, 3)}, "/srv/rd/tr/rd_15ki3reu/attempt_0/1/stderr.log", None),
    ],
)
def test_local_ranks_are_counted_from_the_lowest_rank_of_the_node(
    nodes: dict[str, tuple[int, ...]], run: str, named: int | None
) -> None:
    reported = Watched(2)
    for node, ranks in nodes.items():
        logs = [found(f"/srv/rd/logs/rank{each}.log", each) for each in ranks]
        reported.list_files(node, *logs, *([found(run, local=1)] if node == "n2" else []))
    reported.look(2.0)
    reported.find("n2", run, "python.exception", 90.0, local_rank=1)
    for second in range(3):
        reported.look(92.0 + second)
    assert [alert.rank for alert in reported.book.alerts.values() if alert.code == "python.exception"] == [
        named
    ]


@pytest.mark.parametrize(
    ("ended", "last", "named"),
    [(True, 95.0, "run9"), (True, 400.0, "srv/9/logs"), (False, 95.0, "srv/9/logs")],
)
def test_a_log_that_is_found_after_its_job_ended_is_of_the_job_that_was_watched(
    *, ended: bool, last: float, named: str
) -> None:
    """The rank opened it after its node had listed its files."""
    reported, launched = Watched(), "/srv/9/train.log"
    reported.run("n1", rank(0, 900, 1, job="run9", logs=[launched]))
    reported.list_files("n1", wire.LogFile(launched, pids=[900], grown_at=WALL + 90))
    if ended:
        reported.run("n1", at=96.0)
    own = structs.replace(found("/srv/9/logs/rank0.log", 0), last_at=WALL + last)
    reported.list_files("n1", wire.LogFile(launched, grown_at=WALL + 90), own)
    assert reported.files("n1")[own.path] == named


@pytest.mark.parametrize(("pid", "named"), [(3041, 1), (3042, None)])
def test_what_a_rank_had_started_is_of_the_rank(pid: int, named: int | None) -> None:
    """Also after its end, when its node no longer lists it."""
    reported = Watched()
    for at, children in ((1.0, [3041]), (6.0, [])):
        ranks = [rank(each, 900 + each, 2, job="9", children=children if each else []) for each in range(2)]
        reported.run("n1", *ranks, at=at)
        reported.look(at)
    line = f"RuntimeError: DataLoader worker (pid(s) {pid}) exited unexpectedly"
    reported.find("n1", "/runs/9/train.log", "data.loader_crash", 8.0, job="9", lines=[line])
    for second in range(3):
        reported.look(9.0 + second)
    assert [alert.rank for alert in reported.book.alerts.values()] == [named]


def test_the_index_of_a_spawned_process_is_the_rank_where_nothing_else_shows_ranks() -> None:
    reported, path = Watched(), "/srv/sw/train.log"
    reported.run("n1", rank(0, 900, 1, job="another"))
    reported.list_files("n1", found(path))
    reported.look(2.0)
    reported.find("n1", path, "rank.killed", 90.0, fields={"proc_index": 1})
    for second in range(3):
        reported.look(92.0 + second)
    assert [(alert.rank, alert.rank_from) for alert in reported.book.alerts.values()] == [(1, "index")]
