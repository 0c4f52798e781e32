"""The agent lists and reads files in the folder of a job's log: those of the log's owner, and no others."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from gpuwatch import wire
from gpuwatch.agent.hang_evidence.job_files import job_files, job_piece


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run" / "logs" / "rank_0.log"
    path.parent.mkdir(parents=True)
    path.write_text("step 1\n")
    (tmp_path / "run" / "a.yaml").write_text("a: 1\n")
    (tmp_path / "secret.yaml").write_text("b: 2\n")
    return path


def listed(*logs: Path) -> wire.JobFolders:
    request = {"logs": [str(log) for log in logs], "wanted": r"\.yaml$"}
    return msgspec.convert(job_files(request), wire.JobFolders)


def test_the_files_of_the_folder_above_logs_are_listed_once(log: Path) -> None:
    other = log.with_name("rank_1.log")
    other.write_text("step 1\n")
    found = listed(log, other, log.with_name("gone.log"))
    (folder,) = found.folders
    assert [file.name for file in folder.files] == ["a.yaml"]
    assert len(found.refused) == 1


def test_no_link_and_no_file_outside_or_of_another_owner_is_read(log: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (run / "own").mkdir()
    assert job_piece({"log": str(log), "name": "a.yaml", "offset": 0})["bytes"] == 5
    for name in ("../secret.yaml", str(tmp_path / "secret.yaml"), "link.yaml", "own"):
        with pytest.raises((OSError, ValueError)):
            job_piece({"log": str(log), "name": name, "offset": 0})
    if os.geteuid() == 0:
        os.chown(run / "a.yaml", 12345, 12345)
        assert listed(log).folders[0].files == []
        with pytest.raises(ValueError, match="owner"):
            job_piece({"log": str(log), "name": "a.yaml", "offset": 0})


def test_a_folder_of_several_users_is_not_listed(log: Path, tmp_path: Path) -> None:
    (tmp_path / "run").chmod(0o1777)
    found = listed(log)
    assert found.folders == []
    assert len(found.refused) == 1
