"""Slurm tasks of an ended job are its ranks only as long as no line shows otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch import wire
from gpuwatch.rules.load import load_packs
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL

LOG = "/srv/job/slurm-99101.out"


@pytest.mark.parametrize("at_once", [True, False])
def test_a_launcher_s_line_that_comes_later_takes_the_name_of_the_task_back(at_once: bool) -> None:
    """The result is the same wherever the agent's frames are cut."""
    job = Watched(2)
    job.book = type(job.book)(load_packs(), job.fleet.plan.thresholds)
    listed = wire.LogFile(LOG, source="found", last_at=WALL - 60, size=900, last_lines=["1: exited"])
    job.list_files("n1", listed)
    error: dict[str, Any] = {"index": 1, "index_of": wire.SLURM_TASK, "backlog": True}
    job.find("n1", LOG, "code.shape", severity="critical", **error)
    for task in (1, 0):
        fields = {"node": f"n{task + 1}", "tasks": task}
        job.find("n1", LOG, "rank.exit_error", fields=fields, backlog=True)
    if not at_once:
        for second in range(5):
            job.look(5.0 + 5 * second)
        assert [each.rank for each in job.book.incidents if each.code == "code.shape"] == [1]
    job.find("n1", LOG, "rank.exit_error", fields={"local_rank": 5}, **error)
    for second in range(5):
        job.look(30.0 + 5 * second)
    assert {each.rank for each in job.book.alerts.values()} == {None}
    assert job.book.places.ranks == ()
