"""Jobs that stop without an error line: the rank that the others wait for is named, where there is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuwatch.report.scan.report import ScanReport
from tests.runs.ended_logs import report, step_line, steps
from tests.runs.placement.culprits import Job

WORLD, LAST = 6, 40


def one_step_behind(culprit: int) -> Job:
    busy = steps(LAST - 1, 5000) + "2026-03-04 00:00:39Z INFO opening shard /data/train-0417.tar\n"
    return {f"rank{rank}.log": busy if rank == culprit else steps(LAST, 5000) for rank in range(WORLD)}


def away_from_the_collective(culprit: int) -> Job:
    def log(rank: int) -> str:
        went = "fetching batch 41 from redis" if rank == culprit else "waiting in all_reduce for step 41"
        return (
            "".join(step_line(step, None).replace("INFO", f"r{rank}") for step in range(1, LAST + 1))
            + f"2026-03-04 00:00:41Z r{rank} {went}\n"
        )

    return {f"q/r{rank}.txt": log(rank) for rank in range(WORLD)}


@pytest.mark.parametrize("job", [one_step_behind, away_from_the_collective])
@pytest.mark.parametrize("culprit", [0, 4])
def test_the_rank_that_did_something_else_is_named(
    tmp_path: Path, job: Callable[[int], Job], culprit: int
) -> None:
    """Document 004, line 411."""
    found = write(tmp_path, job(culprit))
    (incident,) = found.incidents
    assert (incident.code, incident.rank) == ("job.hang", culprit)
    assert found.end.state == "stopped"


def test_one_step_less_alone_names_nobody(tmp_path: Path) -> None:
    job = {f"rank{rank}.log": steps(LAST - (rank == 3), 5000) for rank in range(WORLD)}
    assert {incident.rank for incident in write(tmp_path, job).incidents} <= {None}


def test_what_every_rank_logs_between_two_steps_names_nobody(tmp_path: Path) -> None:
    job = {
        f"rank{rank}.log": "".join(
            step_line(step, 5000) + "loading the next batch\n" for step in range(1, LAST + (rank != 2))
        )
        for rank in range(WORLD)
    }
    assert {incident.rank for incident in write(tmp_path, job).incidents} <= {None}


def test_ranks_that_all_wait_name_nobody(tmp_path: Path) -> None:
    waits = "waiting in barrier\n"
    job = {f"rank{rank}.log": steps(LAST, 5000) + waits for rank in range(WORLD)}
    assert {incident.rank for incident in write(tmp_path, job).incidents} <= {None}


def write(folder: Path, job: Job) -> ScanReport:
    for name, text in job.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return report(folder)
