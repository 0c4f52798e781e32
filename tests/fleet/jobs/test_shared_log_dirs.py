"""Two nodes share torchrun's `--log-dir`, and no line or path names a global rank: one job, by the ends."""

from __future__ import annotations

import pytest

from gpuwatch.fleet.jobs.ended_files import ended_job_names
from gpuwatch.fleet.jobs.job_files import home
from gpuwatch.wire import LogFile


@pytest.mark.parametrize(("apart_s", "jobs"), [(0.4, 1), (60.0, 2)])
def test_folders_of_one_run_id_that_end_together_are_one_job(apart_s: float, jobs: int) -> None:
    files = [
        LogFile(
            f"/r/tr/run7_{random}/attempt_0/{local}/stderr.log",
            source="found",
            last_at=1000.0 + number * apart_s,
            rank_from="path",
            local_rank=local,
        )
        for number, random in enumerate(("0ysv_qnt", "4i16nmz9"))
        for local in range(2)
    ]
    names = set(ended_job_names(files, home).values())
    assert (len(names), "run7" in names) == (jobs, True)
