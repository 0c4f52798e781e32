"""What the utilization of GPUs shows: one between two batches is not idle, one while all others wait is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.hang.rank_signs import jobs_of
from tests.diagnose.hang.live_ranks import member
from tests.diagnose.watched_jobs import Watched
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


@pytest.mark.parametrize(
    ("used", "rank"),
    [
        ((100, 100, 0, 99), 2),
        ((100, 100, 100, 100), None),
        ((0, 0, 100, 99), None),
        ((100, 100, 0, 40), None),
    ],
)
def test_the_rank_with_an_idle_gpu_is_the_one_that_the_others_waited_for(
    used: Sequence[float], rank: int | None
) -> None:
    """Only rank 0 reports the timeout; the others were ended before they could."""
    reported, names = Watched(), [f"GPU-{each}" for each in range(4)]
    gpus = [wire.GpuInfo(name, number, "H100") for number, name in enumerate(names)]
    hello = wire.Hello(t=WALL, seq=0, host="n1", agent="1", python="3", pid=1, interval_s=1.0, gpus=gpus)
    reported.report("n1", hello, at=1.0)
    reported.run("n1", *(member(each, 4, gpus=[wire.ProcessGpu(names[each])]) for each in range(4)), at=1.0)
    for at in range(2, 41):
        samples = [
            wire.GpuSample(name, fast=wire.GpuFast(t=WALL + at, utilization_pct=pct if at < 38 else 0.0))
            for name, pct in zip(names, used, strict=True)
        ]
        reported.report("n1", wire.Sample(t=WALL + at, seq=5, gpus=samples), at=float(at))
    more = {"rank": 0, "job": "4711", "role": "echo", "fields": {"op": "ALLREDUCE", "seq": 412}}
    reported.find("n1", "/r/rank_0.log", "nccl.watchdog_timeout", at=39.0, **more)
    (incident,) = reported.incidents(41.0).values()
    assert (incident.rank, incident.confidence) == (rank, "low" if rank is None else "medium")
