"""`setup_rank_logging` of document 004, lines 513 to 561, in processes of ranks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.cluster import ROOT
from tests.parts import need_torch

RECORD = re.compile(
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - Rank (\d+) - (rank_\d+(?:\.multigpu)?|\w+) - ([A-Z]+) - (.+)$"
)
"""Document 004, line 545."""


def rank_process(folder: Path, code: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", f"from gpuwatch.telemetry import *\n{code}", str(folder)]
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    done = subprocess.run(
        argv,
        env={**kept, "PYTHONPATH": str(ROOT), **env},
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done


TALK = """
import logging, sys
log = setup_rank_logging(sys.argv[1])
log.debug("Batch size: 4"); log.info("Starting inference"); log.error("OOM error occurred")
log.getChild("multigpu").debug("ring formed")
logging.getLogger("transformers").info("hidden"); logging.getLogger("transformers").warning("seen")
"""


@pytest.mark.parametrize("rank", [0, 3])
def test_each_rank_has_a_file_and_rank_0_the_console(tmp_path: Path, rank: int) -> None:
    """Document 004, line 513."""
    done = rank_process(tmp_path, TALK, RANK=str(rank), LOCAL_RANK="1", WORLD_SIZE="4", NCCL_DEBUG="INFO")
    records = [RECORD.match(line) for line in (tmp_path / f"rank_{rank}.log").read_text().splitlines()]
    assert all(records)
    found = [record.groups() for record in records if record]
    assert {each[0] for each in found} == {str(rank)}
    levels = {text: level for _, _, level, text in found}
    assert (levels["Batch size: 4"], levels["OOM error occurred"]) == ("DEBUG", "ERROR")
    assert "seen" in levels
    assert "hidden" not in levels
    start = found[0][3]
    assert f"Rank: {rank} | Local rank: 1 | World size: 4 | Host: " in start
    assert any("NCCL_DEBUG=INFO" in text for text in levels)
    console = [RECORD.match(line) for line in done.stderr.splitlines()]
    assert [each[3] for each in console if each and each[2] == "DEBUG"] == []
    assert any(each and each[4] == "Starting inference" for each in console) == (rank == 0)
    assert len(console) == len(set(done.stderr.splitlines())), "no record twice"


def test_the_variables_set_the_levels(tmp_path: Path) -> None:
    """Document 002, line 237."""
    rank_process(tmp_path, TALK, TRAINING_LOG_LEVEL="error", MULTIGPU_LOG_LEVEL="nonsense")
    texts = [
        match[4]
        for line in (tmp_path / "rank_0.log").read_text().splitlines()
        if (match := RECORD.match(line))
    ]
    assert texts == ["OOM error occurred"]
    rank_process(tmp_path, TALK, RANK="1", MULTIGPU_LOG_LEVEL="ERROR")
    assert "ring formed" not in (tmp_path / "rank_1.log").read_text()


def test_a_file_rotates_and_keeps_its_older_ones(tmp_path: Path) -> None:
    code = "import sys; log = setup_rank_logging(sys.argv[1], max_bytes=4000, backups=5)\n"
    rank_process(tmp_path, code + "for n in range(600): log.info('line %d', n)")
    files = sorted(path.name for path in tmp_path.glob("rank_0.log*"))
    assert files == ["rank_0.log", *(f"rank_0.log.{n}" for n in range(1, 6))]
    assert "line 599" in (tmp_path / "rank_0.log").read_text()


def test_two_processes_that_take_themselves_for_one_rank_write_two_files(tmp_path: Path) -> None:
    code = """
import subprocess, sys
setup_rank_logging(sys.argv[1]).info("first")
again = [sys.executable, "-c", open("code").read(), sys.argv[1], "second"]
if len(sys.argv) == 2: subprocess.run(again, check=True)
"""
    (tmp_path / "code").write_text("from gpuwatch.telemetry import *\n" + code)
    rank_process(tmp_path, code)
    files = sorted(path.name for path in tmp_path.glob("rank_0*.log"))
    assert len(files) == 2
    assert [(tmp_path / name).read_text().count("first") for name in files] == [1, 1]


def test_a_second_call_replaces_the_first(tmp_path: Path) -> None:
    code = "import sys\nfor each in 'ab': log = setup_rank_logging(f'{sys.argv[1]}/{each}')\nlog.info('once')"
    done = rank_process(tmp_path, code)
    assert done.stderr.count("once") == 1
    assert "once" not in (tmp_path / "a" / "rank_0.log").read_text()
    assert "once" in (tmp_path / "b" / "rank_0.log").read_text()


def test_under_gpuwatch_run_the_files_stand_in_its_folder(tmp_path: Path) -> None:
    session = tmp_path / "training_20310102_030405"
    session.mkdir()
    code = "setup_rank_logging()"
    rank_process(tmp_path, code, GPUWATCH_RUN_DIR=str(session), GPUWATCH_RUN_ID="f" * 32, RANK="2")
    assert "f" * 32 in (session / "ranks" / "rank_2.log").read_text()


def test_a_wrong_level_is_refused_with_those_there_are(tmp_path: Path) -> None:
    code = """
try: setup_rank_logging(".", log_level="loud")
except ValueError as error: print(error)
"""
    assert "debug, info" in rank_process(tmp_path, code).stdout


def test_the_levels_of_settings(tmp_path: Path) -> None:
    """Document 001, lines 42 and 43."""
    chosen = 'settings=TelemetrySettings(log_level="warning", dep_log_level="error")'
    rank_process(tmp_path, TALK.replace("sys.argv[1])", f"sys.argv[1], {chosen})"))
    text = (tmp_path / "rank_0.log").read_text()
    assert [level in text for level in (" - INFO - ", " - ERROR - ", "seen")] == [False, True, False]


def test_a_process_group_that_cannot_be_made(tmp_path: Path) -> None:
    """Document 002, line 265, and document 000, line 52."""
    need_torch()
    code = """
import sys, torch
log = setup_rank_logging(sys.argv[1])
try: init_process_group(log, "no_such_backend", rank=0, world_size=1, store=torch.distributed.HashStore())
except Exception: pass
init_process_group(log, "gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
"""
    rank_process(tmp_path, code)
    text = (tmp_path / "rank_0.log").read_text()
    refusal = " - ERROR - Distributed backend initialization failed"
    assert refusal in text
    assert "backend: gloo" in text.partition("initialization failed")[2]
