"""Which rank a log of torchrun is of, where the ranks' own logs show how the nodes number them."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL


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
