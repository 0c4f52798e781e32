"""`gpuwatch flight` over the dumps of real gloo jobs."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import ROOT, gpuwatch
from tests.diagnose.dumps import content, steps
from tests.parts import SEEN_BY_EVERY_AGENT, need_torch

pytestmark = SEEN_BY_EVERY_AGENT

JOB = Path(__file__).with_name("flight_job.py")


def judged(folder: Path, how: str) -> dict[str, Any]:
    """Run the job, then the command over what it left."""
    need_torch()
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    argv = [sys.executable, str(JOB), how, str(folder)]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    stated = gpuwatch("flight", str(folder), "--json")
    assert stated.returncode == 1, stated.stdout + stated.stderr
    reported: dict[str, Any] = json.loads(stated.stdout)
    text = gpuwatch("flight", str(folder))
    assert text.stdout.startswith(reported["sentence"])
    return reported


@pytest.mark.long
def test_the_rank_in_the_data_loader_is_named(tmp_path: Path) -> None:
    reported = judged(tmp_path, "missing")
    assert reported["culprits"] == [2]
    assert reported["confidence"] == "high"
    assert reported["sentence"].startswith("rank 2 never")
    assert "train_step (flight_job.py:" in reported["sentence"]


@pytest.mark.long
def test_the_rank_with_another_collective_is_named(tmp_path: Path) -> None:
    reported = judged(tmp_path, "order")
    assert reported["culprits"] == [2]
    assert re.match(r"rank 2 .*broadcast at #4", reported["sentence"])
    assert [each["op"] for each in reported["problems"][0]["odd"]] == ["broadcast"]


@pytest.mark.long
def test_the_rank_that_aborted_before_it_could_leave_a_dump_is_named(tmp_path: Path) -> None:
    reported = judged(tmp_path, "shape")
    assert [dump["rank"] for dump in reported["dumps"]] == [0, 1, 3]
    assert reported["culprits"] == [2]
    assert reported["problems"][0]["kind"] == "absent"
    assert "of rank 2" in reported["settle"][0]


@pytest.mark.parametrize("what", ["nothing there", "no dump"])
def test_without_a_dump_it_is_wrong_usage(tmp_path: Path, what: str) -> None:
    path = tmp_path / "trace_rank_0"
    if what == "no dump":
        path.write_text("step 1 loss 0.3\n")
    done = gpuwatch("flight", str(path))
    assert done.returncode == 2
    assert "trace_rank_0" in done.stderr
    assert done.stdout == ""


def test_a_dump_that_cannot_be_read_is_no_sound_one(tmp_path: Path) -> None:
    done = content(steps(3, "completed"), {"0": range(2)})
    for rank in range(2):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(done, 2))
    assert gpuwatch("flight", str(tmp_path)).returncode == 0
    (tmp_path / "nccl_trace_rank_1").write_bytes(b"\x80\x02}q\x00broken")
    broken = gpuwatch("flight", str(tmp_path))
    assert broken.returncode == 1
    assert "nccl_trace_rank_1" in broken.stdout
