"""The last checkpoint of a job whose log is not read to its end is no fact yet."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.model.last_checkpoint import checkpoints
from gpuwatch.report.output.checkpoints import checkpoint_facts
from gpuwatch.rules.model.checkpoint_lines import SAVED
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
