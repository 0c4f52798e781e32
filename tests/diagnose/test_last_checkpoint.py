"""The last checkpoint of a job whose log is not read to its end is no fact yet."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from gpuwatch.agent.logs.checkpoints.checkpoint_lines import BEGUN, SAVED
from gpuwatch.diagnose.model.last_checkpoint import Checkpoint, checkpoints
from gpuwatch.report.output.checkpoints import checkpoint_facts
from tests.fleet.jobs.two_jobs import WALL, Several

LOG = "/runs/ck/train.log"


@pytest.mark.parametrize("read_pct", [41.0, None])
def test_a_number_of_a_log_that_is_half_read_is_reported_as_such(read_pct: float | None) -> None:
    reported = Several()
    reported.list_files("n1", wire.LogFile(LOG, size=1000, backlog_pct=read_pct))
    reported.find("n1", LOG, SAVED, severity="info", role="hint", lines=["saved checkpoint step 25 in 0.1 s"])
    reported.step("n1", LOG, 60)
    (last,) = checkpoints(reported.fleet, 1.0, WALL).values()
    assert (last.step, last.last_step, last.read_pct) == (25, 60, read_pct)
    assert last.steps_lost == (35 if read_pct is None else None)
    assert ("41 %" in last.text) is (read_pct is not None)
    assert (checkpoint_facts(last) or {})["read_pct"] == read_pct


def test_a_checkpoint_whose_files_nobody_looked_at_says_so() -> None:
    kinds = [(None, None), (None, 8), (True, 8), (False, 8)]
    texts = [Checkpoint(41_000, 5.0, "/ckpt/41000", *kind).text for kind in kinds]
    assert len(set(texts)) == 4
    assert not any(text.endswith("(/ckpt/41000)") for text in texts)


@pytest.mark.parametrize(("of_rank_0", "step", "unfinished"), [(BEGUN, 100, 120), (SAVED, 120, None)])
def test_a_step_that_another_rank_still_saves_is_not_the_last_checkpoint(
    of_rank_0: str, step: int, unfinished: int | None
) -> None:
    """Rank 1 has saved its part; what is on disk is not known for the first seconds."""
    reported = Several()
    logs = [f"/runs/ck/rank{number}.log" for number in range(2)]
    reported.list_files("n1", *(wire.LogFile(log, size=1000, job="4711") for log in logs))
    told = [(0, SAVED, 100), (1, SAVED, 100), (0, BEGUN, 120), (1, BEGUN, 120), (1, SAVED, 120)]
    for at, (rank, rule, number) in enumerate([*told, (0, of_rank_0, 120)]):
        line = f"{'saved' if rule == SAVED else 'saving'} checkpoint step {number}"
        facts = {"severity": "info", "role": "hint", "lines": [line], "job": "4711", "rank": rank}
        reported.find("n1", logs[rank], rule, float(at), **facts)
    (last,) = checkpoints(reported.fleet, 1.0, WALL).values()
    assert (last.step, last.unfinished_step) == (step, unfinished)
