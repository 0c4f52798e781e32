"""A rank of an ended job whose log other nodes see, too: its launcher's failure table states its host."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL

LOG, OUT = "/runs/g2/logs/rank_1.log", "/runs/g2/logs/launch-n2.out"


@pytest.mark.parametrize(("host", "node"), [("n2", "n2"), ("localhost", "n1"), ("nowhere", "n1")])
def test_the_host_in_the_table_is_the_node_of_the_rank(host: str, node: str) -> None:
    """Only n1 has searched the folder."""
    reported = Watched(2)
    files = [
        wire.LogFile(LOG, source="found", ranks=[1], rank_from="path", last_at=WALL + 980.0, size=900),
        wire.LogFile(OUT, source="found", last_at=WALL + 981.0, size=900),
    ]
    reported.list_files("n1", *files)
    reported.look(1000.0)
    reported.find("n1", OUT, "oom.cuda", 980.0, rank=1, rank_from="line", backlog=True)
    table = [f"  host      : {host}", "  rank      : 1 (local_rank: 0)", "  exitcode  : 1 (pid: 3407)"]
    reported.find(
        "n1", OUT, "rank.exit_error", 981.0, rank=1, rank_from="line", backlog=True, lines=table, key=2
    )
    for second in range(4):
        reported.look(1001.0 + 5 * second)
    assert [(each.rank, each.node) for each in reported.book.incidents] == [(1, node)]
