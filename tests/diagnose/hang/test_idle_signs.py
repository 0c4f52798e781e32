"""A GPU between two batches is not idle."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.hang.rank_signs import jobs_of
from tests.diagnose.hang.live_ranks import member
from tests.fleet.jobs.two_jobs import WALL, Several


@pytest.mark.parametrize(("before", "idle"), [(96.0, False), (0.0, True)])
def test_one_sample_of_nothing_is_no_sign(before: float, *, idle: bool) -> None:
    reported = Several()
    gpu = wire.GpuInfo("GPU-0", 0, "H100")
    hello = wire.Hello(t=WALL, seq=0, host="n1", agent="1", python="3", pid=1, interval_s=1.0, gpus=[gpu])
    reported.report("n1", hello, at=9.0)
    reported.run("n1", member(0, 1, gpus=[wire.ProcessGpu("GPU-0")]), at=9.0)
    for at in range(10, 31):
        fast = wire.GpuFast(t=WALL + at, utilization_pct=0.0 if at == 30 else before)
        sample = wire.GpuSample("GPU-0", fast=fast)
        reported.report("n1", wire.Sample(t=WALL + at, seq=5, gpus=[sample]), at=float(at))
    (ranks,) = jobs_of(reported.fleet, 30.0, WALL + 30.0).values()
    assert ranks[0].busy_pct is not None
    assert (ranks[0].busy_pct < 5.0) is idle
