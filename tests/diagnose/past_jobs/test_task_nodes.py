"""A job of srun that ended before: one log has the lines of all tasks, and srun names the node of one."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL

OUT = "/runs/g5/slurm-805.out"


@pytest.mark.parametrize(("launched", "node"), [(False, "n2"), (True, None)])
def test_the_node_that_srun_states_for_a_task_is_that_of_the_rank(launched: bool, node: str | None) -> None:
    """Where a launcher of several ranks writes, a task is no rank."""
    reported = Watched(2)
    reported.list_files("n1", wire.LogFile(OUT, source="found", last_at=WALL + 981.0, size=900, job="805"))
    reported.look(1000.0)
    facts = {"rank_from": "line", "backlog": True, "job": "805"}
    for number in range(4):
        rule = "oom.host.alloc" if number == 3 else "peer.connection_lost"
        role = "root" if number == 3 else "echo"
        reported.find("n1", OUT, rule, 979.0 + (number != 3), rank=number, role=role, **facts)
    if launched:
        reported.find("n1", OUT, "elastic.child_failed", 980.0, backlog=True, job="805", role="echo")
    stated = {"node": "n2", "tasks": "3", "exitcode": 1}
    reported.find("n1", OUT, "rank.exit_error", 981.0, fields=stated, role="echo", backlog=True, job="805")
    for second in range(4):
        reported.look(1001.0 + 5 * second)
    assert [(each.rank, each.node) for each in reported.book.incidents] == [(3, node)]
