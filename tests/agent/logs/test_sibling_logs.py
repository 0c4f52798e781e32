"""Logs of ranks that are gone, beside those of their siblings."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpuwatch.agent.logs.discovery.reopened import reopened_logs
from gpuwatch.agent.logs.discovery.siblings import sibling_logs


def found(written: list[tuple[str, float, int | None]]) -> list[tuple[str, int | None]]:
    beside = sibling_logs(written, lambda _path: None, lambda _path: False)
    mine = {path for path, _, _ in written}
    return sorted((Path(path).name, rank) for path, rank in beside if path not in mine)


def test_the_number_that_is_the_rank_of_every_writer_is_that_of_the_dead_one(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"worker_{number}.log").write_text("step 1\n")
    start = time.time() - 60

    def written(*ranks: tuple[int, int | None]) -> list[tuple[str, float, int | None]]:
        return [(str(tmp_path / f"worker_{number}.log"), start, rank) for number, rank in ranks]

    assert found(written((0, 0), (2, 2))) == [("worker_1.log", 1)]
    assert found(written((0, 5), (2, 7))) == []  # a number of something else
    assert found(written((0, 0))) == []  # one file alone may have any number


def test_a_name_that_says_rank_needs_no_writers_rank(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"out.rank{number}").write_text("step 1\n")
    assert found([(str(tmp_path / "out.rank0"), time.time() - 60, None)]) == [("out.rank1", None)]


def test_the_folder_of_another_run_has_no_siblings(tmp_path: Path) -> None:
    """The number of the folder is that of the run: the file's own name tells the rank."""
    for run in (7, 8):
        (tmp_path / f"run{run}").mkdir()
        (tmp_path / f"run{run}" / "rank0.log").write_text("step 1\n")
    assert found([(str(tmp_path / "run8" / "rank0.log"), time.time() - 60, 0)]) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="root gives files to other users")
def test_another_users_file_beside_the_logs_of_a_job_is_none_of_its_logs(tmp_path: Path) -> None:
    """As in a folder that all users may write, such as /scratch."""
    for rank, uid in ((0, 4343), (1, 4343), (2, 4242), (3, 0)):
        (tmp_path / f"rank_{rank}.log").write_text("step 1\n")
        os.chown(tmp_path / f"rank_{rank}.log", uid, uid)
    written: list[tuple[str, float, int | None]] = [(str(tmp_path / "rank_0.log"), time.time() - 60, 0)]
    assert found(written) == [("rank_1.log", None), ("rank_3.log", None)]
    fresh = reopened_logs(written, lambda _path: None, lambda _path: False)
    assert sorted(Path(one.path).name for one in fresh) == ["rank_1.log", "rank_3.log"]
