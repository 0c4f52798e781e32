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


@pytest.mark.parametrize(("run", "name"), [("none", "run7"), ("r42", "r42")])
def test_the_launchers_logs_above_the_folders_are_of_their_job(run: str, name: str) -> None:
    """`torchrun --log-dir /r/run7/tr > /r/run7/launcher-n1.log` on two nodes."""
    paths = [
        f"/r/run7/tr/{run}_{random}/attempt_0/{local}/stdout.log"
        for random in ("0ysv_qnt", "4i16nmz9")
        for local in range(2)
    ]
    files = [
        LogFile(path, source="found", last_at=1000.0, rank_from="path", local_rank=number % 2)
        for number, path in enumerate(paths)
    ]
    launchers = [f"/r/run7/launcher-{node}.log" for node in ("n1", "n2")]
    files += [LogFile(path, source="found", last_at=1004.0) for path in launchers]
    assert set(ended_job_names(files, home).values()) == {name}
