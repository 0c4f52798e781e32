"""A rank whose number is only inferred is written `~3`, and blamed with low confidence at most."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuwatch.diagnose.hang.stacks.compare import judge_stacks
from gpuwatch.diagnose.hang.stacks.groups import RankStack
from gpuwatch.wire import ProcessStack, PythonThread, StackFrame
from tests.diagnose.finding import Reporter, places


@pytest.mark.parametrize("inferred", [False, True])
def test_an_incident_names_an_inferred_rank_as_such(inferred: bool) -> None:
    where = places(4)
    where = replace(where, ranks=tuple(replace(each, inferred=inferred) for each in where.ranks))
    report = Reporter(where)
    report.emit("oom.cuda", 0.0, 3)
    (incident,) = report.judged()
    assert incident.rank == 3
    assert ("rank ~3" in incident.headline, "rank 3" in incident.headline) == (inferred, not inferred)
    assert incident.confidence == ("low" if inferred else "high")


def test_stacks_name_inferred_ranks_as_such() -> None:
    def stack(rank: int) -> RankStack:
        name = "next_batch" if rank == 2 else "wait_for_all"
        thread = PythonThread("MainThread", main=True, frames=[StackFrame(name, "train.py", 9)])
        return RankStack(
            rank, "n1", 100 + rank, stack=ProcessStack(100 + rank, python=[thread]), inferred=True
        )

    (job,) = judge_stacks([stack(rank) for rank in range(4)])
    assert (job.verdict.culprits, job.verdict.confidence) == ((2,), "low")
    assert "rank ~2 " in job.verdict.sentence


def test_a_log_that_no_inferred_rank_writes_states_its_rank() -> None:
    where = places(4)
    where = replace(where, ranks=tuple(replace(each, inferred=True) for each in where.ranks))
    report = Reporter(where)
    report.emit("oom.cuda", 0.0, 3, file="/elsewhere/rank_3.log", rank_from="line")
    (incident,) = report.judged()
    assert (incident.rank, "rank 3" in incident.headline, incident.confidence) == (3, True, "high")
